import type { DescEnum } from "@bufbuild/protobuf";

/**
 * The name of an enum's value as in the HTTP API, such as `running`; empty for a value that this page does not know.
 */
export function nameOfValue(schema: DescEnum, value: number): string {
  return value === 0 ? "" : (schema.value[value]?.localName.toLowerCase() ?? "");
}

/** True if a permission is granted everywhere, or on some tabs only. `canSome`: whether it is granted at all. */
export function grantOf(
  permission: string,
  granted: readonly string[],
  canSome: boolean,
): "all" | "some tabs" | "none" {
  if (!canSome) {
    return "none";
  }
  const onTabs = granted.some((name) => name.startsWith(`${permission}@tab:`));
  return onTabs && !granted.includes(permission) && !granted.includes("*") ? "some tabs" : "all";
}
