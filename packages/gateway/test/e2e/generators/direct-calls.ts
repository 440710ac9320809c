import type { JsonObject, JsonValue } from "@bufbuild/protobuf";

/** A gadget with a value in every field, and one member of each oneof. The programs in `clients` build the same. */
const gadget: JsonObject = {
  name: "one",
  double: 0.1,
  single: 0.5,
  int32: -2147483648,
  int64: "-9007199254740993",
  uint32: 4294967295,
  uint64: "18446744073709551615",
  sint32: -32,
  sint64: "-64",
  fixed32: 3000000000,
  fixed64: "64",
  sfixed32: 32,
  sfixed64: "9007199254740993",
  flag: true,
  text: "text",
  data: "+/8=",
  colour: "COLOUR_DARK_BLUE",
  pace: "very-slow",
  maybeText: "",
  maybeInt32: 0,
  maybeFlag: false,
  maybeColour: "COLOUR_UNSPECIFIED",
  part: { label: "part", weight: "1", parts: [{ label: "inner", paint: "matt" }] },
  timestamp: "2024-02-29T12:30:15.250Z",
  duration: "3.500s",
  fieldMask: "text,maybeText",
  struct: { a: 1, b: [true, null, "x"], c: { d: 2.5 } },
  value: ["v", { w: null }, 3],
  listValue: [1, "two", { three: [3] }],
  any: { "@type": "type.googleapis.com/gadgets.v1.Part", label: "any", weight: "5" },
  doubleValue: 0.1,
  floatValue: 0.5,
  int64Value: "9007199254740993",
  uint64Value: "18446744073709551615",
  int32Value: 0,
  uint32Value: 4294967295,
  boolValue: false,
  stringValue: "",
  bytesValue: "+/8=",
  texts: ["a", "b"],
  ints: [1, -2],
  longs: ["9007199254740993"],
  doubles: [0.1, 2],
  datas: ["+/8=", "AA=="],
  colours: ["COLOUR_RED", "COLOUR_DARK_BLUE"],
  parts: [{ label: "first" }, { label: "second" }],
  timestamps: ["2024-02-29T12:30:15.250Z"],
  anys: [{ "@type": "type.googleapis.com/gadgets.v1.Part", label: "any" }],
  labels: { "a b": "c", d: "" },
  counts: { many: "9007199254740993" },
  byNumber: { "-7": "seven" },
  byFlag: { true: "COLOUR_RED" },
  byLabel: { part: { label: "part" } },
  copy: { label: "copy", gloss: 0 },
  age: "60s",
  class: "class",
  type: "type",
  self: "self",
  default: "default",
};

/** What the calls of a client returned, by step. */
export type Outcomes = Readonly<Record<string, JsonValue>>;

/** Makes the calls of the programs in `clients` with JSON that is written by hand. */
export async function callDirectly(baseUrl: string): Promise<Outcomes> {
  const send = async (path: string, init?: RequestInit): Promise<Response> => fetch(`${baseUrl}${path}`, init);
  const read = async (...args: Parameters<typeof send>): Promise<JsonValue> =>
    (await (await send(...args)).json()) as JsonValue;

  const path = "/v1/shops/main%20street/gadgets/50%25";
  const readHeaders = async (): Promise<JsonValue> => {
    const response = await send("/v1/headers", { headers: { "X-Pace": "very-slow", "X-Count": "3" } });
    return { ...((await response.json()) as JsonObject), count: Number(response.headers.get("X-Count")) };
  };
  const readError = async (): Promise<JsonValue> => {
    const response = await send("/v1/shops/main%20street/gadgets/none");
    return { status: response.status, body: (await response.json()) as JsonValue };
  };
  return {
    save: await read(`${path}?updateMask=text,maybeText&validateOnly=true`, { method: "PUT", ...jsonOf(gadget) }),
    get: await read(path),
    check: await read("/v1/gadgets:check", { method: "POST", ...jsonOf(gadget) }),
    add: await read("/v1/parts/new%20part", { method: "POST", ...jsonOf({ weight: "9007199254740993" }) }),
    find: await read(`/v1/gadgets?${query.toString()}`),
    names: await read("/v1/names/a%2Fb/-3/9007199254740993/1.5/true/COLOUR_RED"),
    headers: await readHeaders(),
    form: await read("/v1/form", {
      method: "POST",
      headers: { "content-type": "application/x-www-form-urlencoded" },
      body: "userName=Ada+L.&age=36&admin=true&pace=very-slow&tags=a&tags=b",
    }),
    watch: await read("/v1/gadgets:watch?count=2"),
    missing: await readError(),
    delete: (await send(path, { method: "DELETE" })).status,
  };
}

function jsonOf(value: JsonObject): RequestInit {
  return { headers: { "content-type": "application/json" }, body: JSON.stringify(value) };
}

const query = new URLSearchParams([
  ["text", "a b&c"],
  ["small", "-3"],
  ["large", "9007199254740993"],
  ["unsigned", "4294967295"],
  ["ratio", "1.5"],
  ["flag", "true"],
  ["data", "+/8="],
  ["colour", "COLOUR_RED"],
  ["pace", "very-slow"],
  ["maybe", ""],
  ["texts", "a,b"],
  ["texts", "c"],
  ["ints", "1"],
  ["ints", "-2"],
  ["colours", "COLOUR_RED"],
  ["colours", "COLOUR_DARK_BLUE"],
  ["since", "2024-02-29T12:30:15.250Z"],
  ["within", "3.5s"],
  ["readMask", "gadgets.name,gadgets.maybeText"],
  ["most", "9007199254740993"],
  ["page.size", "2"],
  ["page.token", "t"],
]);

/** The outcomes with times in one form, since a client may write 12:30:15.25+00:00 for 12:30:15.250Z. */
export function normalize(outcomes: Outcomes): Outcomes {
  const text = JSON.stringify(outcomes, (_key, value: unknown) =>
    typeof value === "string" && /^\d{4}-\d\d-\d\dT/.test(value) ? new Date(value).toISOString() : value,
  );
  return JSON.parse(text) as Outcomes;
}
