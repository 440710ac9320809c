import type { components, paths } from "./generated/schema";

export type Gadget = components["schemas"]["Gadget"];
export type Query = NonNullable<paths["/v1/gadgets"]["get"]["parameters"]["query"]>;
