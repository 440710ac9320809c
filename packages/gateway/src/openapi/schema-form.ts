/**
 * "simple" is what code generators understand: one schema of a message for requests and responses, and no alternatives for a value.
 * "exact" accepts just the JSON that the handler accepts and writes.
 */
export type SchemaForm = "simple" | "exact";
