export { createRestTransport } from "./transport.ts";
export type { RestTransportOptions } from "./options.ts";
