import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["{test,packages/*/test}/**/*.test.ts"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Most of the slow ones wait for processes that they start.
    maxWorkers: 3,
  },
});
