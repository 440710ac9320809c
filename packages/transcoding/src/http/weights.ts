/** An element of a list such as Accept, in lower case. */
export type WeightedName = {
  readonly name: string;
  /** 0 to 1. 0 means "not acceptable", and so does a value that is not a weight. */
  readonly weight: number;
};

/** Parses a list with weights, as in Accept and Accept-Encoding (RFC 9110, section 12.4.2). Some clients write `q=.2`. */
export function parseWeights(list: string): WeightedName[] {
  return list
    .toLowerCase()
    .split(",")
    .map((element) => {
      const [name = "", ...parameters] = element.split(";").map((part) => part.trim());
      const q = parameters.find((parameter) => parameter.startsWith("q="));
      const weight = q === undefined ? 1 : Number(q.slice(2));
      return { name, weight: weight >= 0 && weight <= 1 ? weight : 0 };
    });
}
