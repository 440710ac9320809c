export type { Gadget, GadgetsServiceFindGadgetsParams as Query } from "./generated/client";
