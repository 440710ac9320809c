/** An element of a list such as Accept, in lower case. */
export type WeightedName = {
  readonly name: string;
  /** 0 to 1. 0 means "not acceptable", and so does a value that is not a weight. */
  readonly weight: number;
};

/** RFC 9110, section 12.4.2, but with any number of digits, and with `.2`, which some clients write. */
const validWeight = /^(?:0|0?\.\d+|0\.|1(?:\.0*)?)$/;

export function parseWeights(list: string): WeightedName[] {
  return list
    .toLowerCase()
    .split(",")
    .map((element) => {
      const [name = "", ...parameters] = element.split(";").map((part) => part.trim());
      const q = parameters.find((parameter) => parameter.startsWith("q="))?.slice(2) ?? "1";
      return { name, weight: validWeight.test(q) ? Number(q) : 0 };
    });
}
