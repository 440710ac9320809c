/** Maximum nesting depth of messages in JSON, equal to the limit of binary decoders. */
export const maxDepth = 100;
