// Promise.withResolvers, which Node.js has from version 22 on.
"use strict";

Promise.withResolvers ??= function () {
  let resolve, reject;
  const promise = new this((yes, no) => { resolve = yes; reject = no; });
  return { promise, resolve, reject };
};
