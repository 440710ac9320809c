import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { type AuditKind, AuditKindSchema, type AuditService } from "@flowgate/client";
import { kindTexts } from "../../texts/audit.ts";

export const filterNames = ["user", "kind", "since", "until"] as const;

type Request = MessageInitShape<(typeof AuditService.method.listAuditEntries)["input"]>;

/** The name of a kind in filters and exports, such as `sign_in`. */
export function nameOfKind(kind: AuditKind): string {
  return AuditKindSchema.value[kind]?.localName.toLowerCase() ?? String(kind);
}

/** Returns the label of a kind, or its name if only a newer service knows it. */
export function labelOfKind(kind: AuditKind): string {
  const name = nameOfKind(kind);
  return kindTexts[name] ?? name;
}

const knownKinds: readonly AuditKind[] = AuditKindSchema.values.slice(1).map(({ number }) => number as AuditKind);

/** All kinds of entries, as the options of a filter. */
export const kinds = knownKinds.map((kind) => ({ value: nameOfKind(kind), label: labelOfKind(kind) }));

/** The request of the filters in the address. What is no kind or time there is ignored. */
export function toRequest(filters: Readonly<Record<(typeof filterNames)[number], string>>): Omit<Request, "$typeName"> {
  const kind = knownKinds.find((each) => nameOfKind(each) === filters.kind);
  const [sinceMs, untilMs] = [Date.parse(filters.since), Date.parse(filters.until)];
  return {
    user: filters.user,
    kind: kind === undefined ? [] : [kind],
    ...(Number.isNaN(sinceMs) ? {} : { startTime: timestampFromMs(sinceMs) }),
    ...(Number.isNaN(untilMs) ? {} : { endTime: timestampFromMs(untilMs) }),
  };
}
