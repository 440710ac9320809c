import { compareSync } from "bcryptjs";
import { parentPort } from "node:worker_threads";

export type BcryptRequest = { readonly password: string; readonly hash: string };
export type BcryptResult = { readonly isCorrect: boolean };

parentPort?.on("message", ({ password, hash }: BcryptRequest) => {
  const result: BcryptResult = { isCorrect: compareSync(password, hash) };
  parentPort?.postMessage(result);
});
