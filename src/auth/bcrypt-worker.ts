import { compareSync } from "bcryptjs";
import { parentPort } from "node:worker_threads";

export type BcryptQuestion = { readonly password: string; readonly hash: string };
export type BcryptAnswer = { readonly right: boolean };

parentPort?.on("message", ({ password, hash }: BcryptQuestion) => {
  const answer: BcryptAnswer = { right: compareSync(password, hash) };
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, not a window
  parentPort?.postMessage(answer);
});
