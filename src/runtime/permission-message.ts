/** Node's permission flags, and the options of the service that set them. */
const options: ReadonlyMap<string, string> = new Map([
  ["fs-read", "runtime.allow.fileSystemRead"],
  ["fs-write", "runtime.allow.fileSystemWrite"],
  ["child-process", "runtime.allow.childProcess"],
  ["worker", "runtime.allow.worker"],
  ["addons", "runtime.allow.nativeAddons"],
]);

/**
 * Replaces the flags in messages of Node's permission model, which no one can set on the runtime's process, by
 * the options of the service.
 */
export function nameOptions(message: string): string {
  return message.replaceAll(/\bUse --allow-([a-z-]+) to manage permissions\./g, (_, flag: string) => {
    const option = options.get(flag);
    return option === undefined ? "No option of the service permits it." : `The option ${option} permits it.`;
  });
}
