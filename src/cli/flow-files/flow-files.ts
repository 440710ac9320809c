import type { JsonPath } from "@flowgate/gateway/json-path";
import type { FlowSource } from "./source.ts";

/** A value of some files, parsed but not validated, and where it is. */
export type FileValue = { readonly value: unknown; readonly source: FlowSource; readonly path: JsonPath };

/** The content of one or several files: the fields of a SetFlowsRequest, not validated. */
export type FlowFiles = {
  /** In the order of the configuration. */
  readonly nodes: readonly FileValue[];
  readonly rev: FileValue | undefined;
  readonly credentials: FileValue | undefined;
};
