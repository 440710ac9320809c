/** A node of a deployment, as its type and the text of its members other than id and type. */
export type HostileNode = {
  /** What is unusual about it. */
  readonly name: string;
  readonly members: string;
  /** Whether protobuf can express it, so that all protocols can be compared. */
  readonly isValue: boolean;
  /** Must occur in the response to GET /flows if it was accepted. */
  readonly kept?: string;
};

const nest = (levels: number, open: string, close: string) => `${open.repeat(levels)}1${close.repeat(levels)}`;

type Make = (random: () => number) => Omit<HostileNode, "name">;

const text = (members: string, kept?: string) => ({ members, isValue: false, ...(kept !== undefined && { kept }) });
const value = (members: string, kept?: string) => ({ members, isValue: true, ...(kept !== undefined && { kept }) });
const integer = (random: () => number, digits: number) =>
  `9${Array.from({ length: digits - 2 }, () => Math.floor(10 * random())).join("")}1`;
const word = (random: () => number, length: number) =>
  Array.from({ length }, () => String.fromCodePoint(97 + Math.floor(26 * random()))).join("");
/** The number itself, and not a shorter text that is read as the same double: JSON with such an integer is rejected. */
const textOf = (number: number) => (Number.isInteger(number) ? String(BigInt(number)) : number.toExponential());
/** Any code points but surrogates. */
const unicode = (random: () => number, length: number) =>
  Array.from({ length }, () => {
    const codePoint = Math.floor(0x10_f7ff * random());
    return String.fromCodePoint(codePoint < 0xd800 ? codePoint : codePoint + 0x800);
  }).join("");

const shapes: Readonly<Record<string, Make>> = {
  "a repeated key": (random) => text(`"${"x".repeat(1 + 3 * random())}":1,"x":2,"x":3`),
  "a repeated key, escaped": () => text(String.raw`"ab":1,"\u0061b":2`),
  "an integer beyond 2^53": (random) => {
    const digits = integer(random, 17 + Math.floor(3 * random()));
    return text(`"x":${digits}`, digits);
  },
  "a huge exponent": (random) => text(`"x":1e${309 + Math.floor(10_000 * random())}`),
  "a lone surrogate": (random) =>
    text(
      String.raw`"x":"\ud8${Math.floor(16 + 239 * random())
        .toString(16)
        .padStart(2, "0")}"`,
    ),
  "a lone surrogate as a key": () => text(String.raw`"\udfff":1`),
  "__proto__ as a key": (random) => text(`"x":${"[".repeat(3 * random())}{"__proto__":1}`),
  "a control character in a string": (random) => text(`"x":"${String.fromCodePoint(Math.floor(32 * random()))}"`),
  "a syntax error": (random) =>
    text(`"x":${["NaN", "'y'", "01", "+1", ".5", "1.", "[1,]", "{,}", "/**/1", "tru"][Math.floor(10 * random())]}`),
  "a byte order mark inside": () => text(`\ufeff"x":1`),
  "deep arrays": (random) => value(`"x":${nest(Math.floor(70 * random()), "[", "]")}`),
  "deep objects": (random) => value(`"x":${nest(Math.floor(70 * random()), '{"a":', "}")}`),
  "a NUL in a string": () => value(String.raw`"x":"a\u0000b"`),
  "any Unicode": (random) => value(`"x":${JSON.stringify(unicode(random, 20))}`),
  "a name of Object.prototype": (random) =>
    value(
      `"${["constructor", "toString", "hasOwnProperty", "valueOf", "__defineGetter__"][Math.floor(5 * random())]}":1`,
    ),
  "numbers of any size": (random) => value(`"x":${textOf((random() - 0.5) * 10 ** Math.floor(600 * random() - 300))}`),
  "wires of a wrong type": (random) =>
    value(`"wires":${["1", "{}", "[1]", '[["a",1]]', '"x"', "[[[]]]", "null"][Math.floor(7 * random())]}`),
  "a tab of a wrong type": (random) => value(`"z":${["1", "null", "[]", "{}"][Math.floor(4 * random())]}`),
  "a long key": (random) => value(`"${word(random, 5_000)}":1`),
  "many members": (random) => value(Array.from({ length: 500 }, (_, at) => `"${word(random, 3)}${at}":${at}`).join()),
  "an empty key": () => value(`"":1`),
  nulls: () => value(`"x":null,"y":[null]`),
};

/** Nodes of all shapes, the same for the same random numbers. */
export function hostileNodes(count: number, random: () => number): HostileNode[] {
  const all = Object.entries(shapes);
  return Array.from({ length: count }, (_, at) => {
    const [name, make] = all[at % all.length] as [string, Make];
    return { name, ...make(random) };
  });
}
