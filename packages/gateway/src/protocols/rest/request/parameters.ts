import type { DescMessage, Message } from "@bufbuild/protobuf";
import { parameterError, messageParameters, resolveParameter, type ParameterOptions } from "./parameter-name.ts";
import { setParameter } from "./parameter-value.ts";
import { decodeParameter } from "../../../routing/percent.ts";

/** Reads the parameters in `text`, from index `start` on, into a message. Throws a RequestError for the first invalid one. */
export type ParameterReader = (message: Message, text: string, start: number) => void;

/**
 * Compiles a reader of parameters such as `a=1&b.c=2`. Each name is a path of proto or JSON field names. A repeated
 * field takes one parameter for each item, in order; a map takes `m[key]=value` for each entry, or one JSON object;
 * Struct, Value and ListValue take JSON. Any other field, and any member of a oneof, can be set only once.
 */
export function createParameterReader(desc: DescMessage, options: ParameterOptions): ParameterReader {
  const root = messageParameters(desc);
  const { ignored } = options;
  const hasIgnored = ignored.size > 0;
  return (message, text, start) => {
    let seen: Set<string> | undefined;
    let first: string | undefined;
    for (let at = start; at < text.length;) {
      let end = text.indexOf("&", at);
      if (end === -1) {
        end = text.length;
      }
      if (end > at) {
        const equals = text.indexOf("=", at);
        const hasValue = equals !== -1 && equals < end;
        const name = decodeParameter(text.slice(at, hasValue ? equals : end), options.from);
        const value = hasValue ? decodeParameter(text.slice(equals + 1, end), options.from) : "";
        const target = hasIgnored && ignored.has(name) ? undefined : resolveParameter(root, name, options);
        if (target !== undefined) {
          const { leaf } = target;
          // Lists and maps can repeat; setParameter rejects repeated map keys.
          if (leaf.kind === "value") {
            const key = target.steps === undefined ? leaf.name : target.path;
            if (key === first || seen?.has(key) === true) {
              throw parameterError(target, "set more than once");
            }
            if (first === undefined) {
              first = key;
            } else {
              (seen ??= new Set()).add(key);
            }
          }
          setParameter(message, target, value, options);
        }
      }
      at = end + 1;
    }
  };
}
