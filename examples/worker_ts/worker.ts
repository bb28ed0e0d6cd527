// A Headway worker in TypeScript: docs/worker_protocol.md in code. One process runs one handler at a time; start more
// of them for more. README.md walks through it.
import { randomUUID } from "node:crypto";
import grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { createClient } from "@redis/client";

// What this worker can do. A handler gets its input, a key that stays the same however often it is run again, and a
// signal that tells it to stop.
async function numberInvoice({ shop, order }: any, key: string, signal: AbortSignal): Promise<unknown> {
  const request = { method: "POST", headers: { "Idempotency-Key": key }, body: JSON.stringify({ order }), signal };
  const response = await fetch(`${shop}/invoices`, request);
  return response.ok ? response.json() : Promise.reject(new Error(`the shop answered ${response.status}`));
}
const handlers: Record<string, typeof numberInvoice> = { "invoice.number": numberInvoice };

const { HEADWAY_COORDINATOR = "127.0.0.1:7710", HEADWAY_REDIS_URL = "redis://127.0.0.1:6379" } = process.env;
const owner = `typescript-${randomUUID()}`; // new at every process start
const stream = "headway:{default/invoices}:dispatch"; // namespace and queue
const redis = await createClient({ url: HEADWAY_REDIS_URL }).on("error", console.error).connect();
const options = { includeDirs: ["../../protos/src"], keepCase: true, longs: Number, enums: String, defaults: true };
const api: any = grpc.loadPackageDefinition(loadSync("headway/api/tasks/v1/tasks.proto", options));
const tasks = new api.headway.api.tasks.v1.TasksService(HEADWAY_COORDINATOR, grpc.credentials.createInsecure());
const most = 1024 * 1024; // bytes of an output: a message that is too long is never answered, however often it is sent
const cut = (text: unknown) => String(text ?? "").slice(0, 4_096);
const milliseconds = ({ seconds, nanos }: { seconds: number; nanos: number }) => seconds * 1e3 + nanos / 1e6;

// Calls until there is an answer. `sent` is when the answered request left: a lease counts from there.
async function ask(method: "Lease" | "Renew" | "Report", item: object): Promise<any> {
  for (let pause = 100; ; pause = Math.min(pause * 2, 3_000)) {
    const [sent, deadline] = [performance.now(), Date.now() + 5_000];
    const [error, response] = await new Promise<any[]>((resolve) =>
      tasks[method]({ owner, items: [item] }, { deadline }, (...reply: any[]) => resolve(reply)));
    // DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED and UNAVAILABLE pass.
    if (error && ![4, 8, 14].includes(error.code)) throw error;
    if (!error && !response.results[0].answer.endsWith("_BUSY")) return { ...response.results[0], sent };
    await new Promise((wake) => setTimeout(wake, pause * (0.5 + Math.random())));
  }
}

// Runs the handler and renews its lease meanwhile. Returns what to report; nothing if the lease was lost.
async function run(item: object, { grant, sent }: any): Promise<object | undefined> {
  const stop = new AbortController();
  let until = sent + milliseconds(grant.lease);
  const heart = setInterval(async () => {
    if (performance.now() >= until) stop.abort("lost"); // nobody answered in time
    const renewal = await ask("Renew", item).catch(() => ({ answer: "none" }));
    if (renewal.answer !== "RENEW_ANSWER_RENEWED") return stop.abort("lost");
    until = Math.max(until, renewal.sent + milliseconds(renewal.lease));
    if (renewal.cancel) stop.abort("cancelled");
  }, milliseconds(grant.lease) / 3);
  return Promise.resolve()
    .then(() => handlers[grant.handler]!(JSON.parse(grant.input), grant.idempotency_key, stop.signal))
    .then((result) => {
      const output = Buffer.from(JSON.stringify(result ?? null));
      if (output.length <= most) return { succeeded: { output } };
      const message = `the output has ${output.length} bytes as JSON; the limit is ${most}`;
      return { failed: { type: "InvalidOutput", message, final: true } };
    })
    .catch((error) => ({
      failed: { type: cut(error?.name ?? "Error"), message: cut(error?.message ?? error), trace: cut(error?.stack) },
    }))
    .then((outcome) => (stop.signal.reason === "lost" ? undefined : stop.signal.aborted ? { cancelled: {} } : outcome))
    .finally(() => clearInterval(heart));
}

let draining = false;
for (const signal of ["SIGTERM", "SIGINT"]) process.once(signal, () => (draining = true));
while (!draining) {
  await redis.xGroupCreate(stream, "workers", "0", { MKSTREAM: true }).catch(() => "it is there already");
  const left = await redis.xAutoClaim(stream, "workers", owner, 30_000, "0-0", { COUNT: 1 }); // by workers that died
  const read = await redis.xReadGroup("workers", owner, { key: stream, id: ">" }, { COUNT: 1, BLOCK: 2_000 });
  for (const { id, message } of [...left.messages, ...((read as any)?.[0].messages ?? [])]) {
    // Fields that a request does not have, of the broker message as of a refusal, are not sent.
    const lease = await ask("Lease", { ...message, grant_key: randomUUID(), traceparent: message.trace });
    const outcome = lease.answer === "LEASE_ANSWER_GRANTED" && (await run(message, lease));
    const { refusal } = outcome ? await ask("Report", { ...message, ...outcome }) : { refusal: null };
    // What it reported cannot be taken: its output holds a NUL, say.
    if (refusal) await ask("Report", { ...message, failed: { ...refusal, type: refusal.reason, final: true } });
    await redis.multi().xAck(stream, "workers", id).xDel(stream, id).exec();
  }
}
process.exit(0);
