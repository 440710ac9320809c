import type { Gadget as Model, GadgetsServiceFindGadgetsRequest } from "./generated";

/** With the names and the times of the JSON. */
export type Gadget = Omit<Model, "_double" | "_class" | "_default" | "timestamp" | "timestamps"> & {
  double: number;
  class: string;
  default: string;
  timestamp: string;
  timestamps: string[];
};
export type Query = Omit<GadgetsServiceFindGadgetsRequest, "since" | "pageSize" | "pageToken"> & {
  since: string;
  "page.size": number;
  "page.token": string;
};
