// An application in another language: it starts a run, signals it, and waits for its end, by nothing but the .proto files.
// node application.mjs PACKAGES PROTOS COORDINATOR INPUT
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";

const [packages, protos, coordinator, input] = process.argv.slice(2);
const require = createRequire(`${packages}/package.json`);
const grpc = require("@grpc/grpc-js");
const { loadSync } = require("@grpc/proto-loader");

const options = { includeDirs: [protos], keepCase: true, longs: Number, enums: String, defaults: true };
const api = grpc.loadPackageDefinition(loadSync("headway/api/runs/v1/runs.proto", options)).headway.api.runs.v1;
const runs = new api.RunsService(coordinator, grpc.credentials.createInsecure());
const call = (method, request) =>
  new Promise((resolve, reject) =>
    runs[method](request, { deadline: Date.now() + 10_000 }, (error, response) => (error ? reject(error) : resolve(response))));

const start = { workflow: "ordered", key: "order-1", input: Buffer.from(input), request_id: randomUUID() };
const { run_id } = await call("Start", start);
const again = await call("Start", { ...start, request_id: randomUUID() });
const payload = Buffer.from(JSON.stringify({ by: "ann" }));
await call("Signal", { run_id, name: "approval", payload, id: "approval-1" });
await call("Signal", { key: "order-1", workflow: "ordered", name: "approval", payload, id: "approval-1" });
const unknown = await call("Signal", { run_id, name: "", payload, id: "x" }).catch((error) => grpc.status[error.code]);

const states = [];
const watch = runs.Watch({ run_id });
for await (const { event, state } of watch) states.push([event.type, state]);
const { run } = await call("Get", { run_id });
console.log(JSON.stringify({
  run_id,
  existed: again.existed,
  same: again.run_id === run_id,
  unknown,
  last: states.at(-1),
  state: run.state,
  output: JSON.parse(run.output),
}));
