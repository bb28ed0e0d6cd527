// Keeps lines in flight on Restate: INGRESS IN_FLIGHT SECONDS TIMED; prints JSON. Every answer is looked at.
"use strict";

const http = require("node:http");

const [ingress, inFlight, seconds, timed] = process.argv.slice(2);
const STEPS = 10;
const WARM_UP_MS = 2000;
const PAD = "x".repeat(180);
const agent = new http.Agent({ keepAlive: true, maxSockets: Number(inFlight) });
const body = JSON.stringify({ n: 0, pad: PAD, ...(timed === "timed" && { timed: true }) });
const url = new URL("/bench/line", ingress);
const options = { method: "POST", agent, headers: { "content-type": "application/json", "content-length": body.length } };

function call() {
  return new Promise((resolve, reject) => {
    const request = http.request(url, options, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (part) => { text += part; });
      response.on("end", () => {
        if (response.statusCode !== 200) reject(new Error(`${response.statusCode}: ${text}`));
        else resolve(JSON.parse(text));
      });
    });
    request.on("error", reject);
    request.end(body);
  });
}

async function main() {
  const first = performance.now() + WARM_UP_MS;
  const last = first + Number(seconds) * 1000;
  const hops = [];
  let runs = 0, right = 0, within = 0;
  async function keep() {
    while (performance.now() < last) {
      const answer = await call();
      const now = performance.now();
      runs++;
      if (answer.n === STEPS) right++;
      if (now >= first && now < last) {
        within++;
        hops.push(...(answer.hops ?? []));
      }
    }
  }
  await Promise.all(Array.from({ length: Number(inFlight) }, keep));
  hops.sort((a, b) => a - b);
  const median = hops.length ? hops[Math.floor(hops.length / 2)] : null;
  console.log(JSON.stringify({ tasks_per_s: (within * STEPS) / Number(seconds), runs, right, hop_ms_p50: median }));
  agent.destroy();
}

main().catch((error) => { console.error(String(error)); process.exit(1); });
