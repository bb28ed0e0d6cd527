// The line of ten on Restate: FOLDER PORT. With `timed` in the input, the output has the milliseconds between steps.
"use strict";

const { createRequire } = require("node:module");

const [folder, port] = process.argv.slice(2);
const restate = createRequire(`${folder}/`)("@restatedev/restate-sdk");
const STEPS = 10;

const bench = restate.service({
  name: "bench",
  handlers: {
    line: async (context, input) => {
      const hops = [];
      let value = input;
      let ended;
      for (let step = 0; step < STEPS; step++) {
        value = await context.run(`s${step}`, () => {
          if (ended !== undefined) hops.push(performance.now() - ended);
          const counted = { n: value.n + 1, step, pad: value.pad };
          ended = performance.now();
          return counted;
        });
      }
      return input.timed ? { n: value.n, hops } : { n: value.n };
    },
  },
});

restate.serve({ services: [bench], port: Number(port) });
