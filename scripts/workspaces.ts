/** The directories of the packages other than the service, in the order of publication. */
export const workspaces = [
  "packages/gateway",
  "packages/flows",
  "packages/base",
  "packages/runtime",
  "packages/client",
  "packages/cli",
  "packages/node-red",
];
