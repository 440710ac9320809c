import type { Message } from "@bufbuild/protobuf";
import type { Choice } from "./operation.ts";
import { invalidArgument } from "./request/invalid-argument.ts";

/**
 * Creates the check of the messages after the first one of a client stream. A request has one path and one query, those of the first
 * message. The check throws a ConnectError for a message with different values; fields of the path and query may also be unset.
 */
export function createParameterCheck(
  { path, writePath, mapping }: Choice,
  first: Message | undefined,
): (message: Message) => void {
  const sent = new Set((first === undefined ? [] : mapping.writeQuery(first)).map((parameter) => parameter.join("=")));
  return (message) => {
    if (message === first) {
      return;
    }
    const own = writePath(message);
    const other = mapping.writeQuery(message).find((parameter) => !sent.has(parameter.join("=")));
    if (other !== undefined || (own.isSet && own.path !== path)) {
      throw invalidArgument(
        `${other?.[0] ?? "the path"}: must be the same in all messages of the stream, because it is not in the body`,
      );
    }
  };
}
