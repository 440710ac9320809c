/** What -o prints for programs. */
export type OutputFormat = "json" | "yaml";
