import type { Gadget, GadgetsServiceFindGadgetsData } from "./generated";

export type { Gadget };
export type Query = NonNullable<GadgetsServiceFindGadgetsData["query"]>;
