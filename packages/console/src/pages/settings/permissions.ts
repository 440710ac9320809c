/** Whether a permission is granted everywhere, or on some tabs only. `canSome`: whether it is granted at all. */
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
