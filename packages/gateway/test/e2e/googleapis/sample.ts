import { ScalarType, type DescField, type DescMessage, type DescMethod, type Message } from "@bufbuild/protobuf";
import { reflect, type ReflectMessage } from "@bufbuild/protobuf/reflect";
import { fieldsAt, type Binding } from "../../bindings.ts";
import { expand } from "../../expand.ts";

/** A request, and the message that it has to be bound to. */
export type Sample = {
  readonly httpMethod: string;
  readonly target: string;
  /** JSON. */
  readonly body: string | undefined;
  readonly message: Message;
};

/** A request of a binding: with a value for each path variable, and in the body and the query, as far as it has them. */
export function createSample({ input }: DescMethod, { httpMethod, template, body }: Binding): Sample {
  const message = reflect(input);
  const bound = new Set<string>();
  const bind = (path: string, text: string): string => {
    bound.add(path);
    return setField(message, fieldsAt(input, path), text);
  };
  const bindFree = (desc: DescMessage, prefix: string, text: string): DescField | undefined => {
    const field = desc.fields.find((each) => isPlainString(each) && !bound.has(`${prefix}${each.name}`));
    if (field !== undefined) {
      bind(`${prefix}${field.name}`, text);
    }
    return field;
  };
  const path = expand(template, (fieldPath, pattern) =>
    fieldPath === "" ? textOf(pattern) : bind(fieldPath, textOf(pattern)),
  );
  const writeBody = (): string => {
    const [field] = body === "*" ? [] : fieldsAt(input, body);
    const prefix = field === undefined ? "" : `${body}.`;
    const desc = field === undefined ? input : field.message;
    if (desc?.typeName === "google.api.HttpBody") {
      bind(`${prefix}content_type`, "application/json");
      return bind(`${prefix}data`, bodyText);
    }
    if (desc === undefined || field?.fieldKind === "list") {
      return desc === undefined ? JSON.stringify(bind(body, bodyText)) : "[]";
    }
    bound.add(body);
    const free = bindFree(desc, prefix, bodyText);
    if (field?.fieldKind === "message" && !message.isSet(field)) {
      message.set(field, reflect(field.message));
    }
    return JSON.stringify(free === undefined ? {} : { [free.jsonName]: bodyText });
  };
  const content = body === "" ? undefined : writeBody();
  const parameter = body === "*" ? undefined : bindFree(input, "", queryText);
  const query = parameter === undefined ? "" : `?${parameter.name}=${encodeURIComponent(queryText)}`;
  return { httpMethod, target: `${path}${query}`, body: content, message: message.message };
}

const bodyText = 'b "\\ü';
const queryText = "q &=+%ü";

/** A text that matches the pattern of a variable, with characters that are encoded in a path. */
function textOf(pattern: string): string {
  return pattern === "*"
    ? "a/b c:%ü"
    : pattern
        .split("/")
        .map((segment) => (segment === "**" ? "x y/z:%ü" : segment === "*" ? "a b:%ü" : segment))
        .join("/");
}

const isPlainString = (field: DescField): boolean =>
  field.fieldKind === "scalar" && field.scalar === ScalarType.STRING && field.oneof === undefined;

/** Sets a field, and returns its text in a path: the given one if it is a string. */
function setField(message: ReflectMessage, [field, ...rest]: readonly DescField[], text: string): string {
  if (field?.fieldKind === "message") {
    const inner = message.get(field);
    const written = setField(inner, rest, text);
    message.set(field, inner);
    return written;
  }
  switch (field?.fieldKind) {
    case "enum": {
      const value = field.enum.values.at(-1);
      message.set(field, value?.number);
      return value?.name ?? "";
    }
    case "scalar":
      return setScalar(message, field, text);
    default:
      throw new Error(`no text for ${String(field)}`);
  }
}

function setScalar(message: ReflectMessage, field: DescField & { fieldKind: "scalar" }, text: string): string {
  switch (field.scalar) {
    case ScalarType.STRING:
      message.set(field, text);
      return text;
    case ScalarType.BYTES:
      message.set(field, new TextEncoder().encode(text));
      return text;
    case ScalarType.BOOL:
      message.set(field, true);
      return "true";
    default:
      message.set(field, typeof message.get(field) === "bigint" ? 7n : 7);
      return "7";
  }
}
