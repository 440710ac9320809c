/** The service's options by the Node permission flags that they set. */
const optionsByFlag: ReadonlyMap<string, string> = new Map([
  ["fs-read", "runtime.allow.fileSystemRead"],
  ["fs-write", "runtime.allow.fileSystemWrite"],
  ["child-process", "runtime.allow.childProcess"],
  ["worker", "runtime.allow.worker"],
  ["addons", "runtime.allow.nativeAddons"],
]);

/**
 * Replaces the flags in messages of Node's permission model by the service's options, because users can't set flags of the
 * runtime's process.
 */
export function nameOptions(message: string): string {
  return message.replaceAll(/\bUse --allow-([a-z-]+) to manage permissions\./g, (_, flag: string) => {
    const option = optionsByFlag.get(flag);
    return option === undefined ? "No option of the service permits it." : `The option ${option} permits it.`;
  });
}
