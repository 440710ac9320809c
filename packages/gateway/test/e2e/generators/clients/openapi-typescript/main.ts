import createClient from "openapi-fetch";
import type { paths } from "./generated/schema";
import { gadget, query } from "./gadget";

const { GET, PUT, POST, DELETE } = createClient<paths>({ baseUrl: process.argv[2] ?? "" });
const path = { shop: "main street", gadget_id: "50%" };

/** The data of a response, which has the type of the successful ones. */
async function data<T>(result: Promise<{ data?: T; error?: unknown }>): Promise<T> {
  const { data, error } = await result;
  if (data === undefined) {
    throw new Error(JSON.stringify(error));
  }
  return data;
}

async function getHeaders() {
  const params = { header: { "X-Pace": "very-slow", "X-Count": 3 } } as const;
  const { data, response } = await GET("/v1/headers", { params });
  return { ...data, count: Number(response.headers.get("X-Count")) };
}

async function getMissing() {
  const params = { path: { ...path, gadget_id: "none" } };
  const { error, response } = await GET("/v1/shops/{shop}/gadgets/{gadget_id}", { params });
  return { status: response.status, body: error };
}

const outcomes = {
  save: await data(
    PUT("/v1/shops/{shop}/gadgets/{gadget_id}", {
      params: { path, query: { updateMask: "text,maybeText", validateOnly: true } },
      body: gadget,
    }),
  ),
  get: await data(GET("/v1/shops/{shop}/gadgets/{gadget_id}", { params: { path } })),
  check: await data(POST("/v1/gadgets:check", { body: gadget })),
  add: await data(
    POST("/v1/parts/{label}", { params: { path: { label: "new part" } }, body: { weight: "9007199254740993" } }),
  ),
  find: await data(GET("/v1/gadgets", { params: { query } })),
  names: await data(
    GET("/v1/names/{text}/{small}/{large}/{ratio}/{flag}/{colour}", {
      params: {
        path: { text: "a/b", small: -3, large: "9007199254740993", ratio: 1.5, flag: true, colour: "COLOUR_RED" },
      },
    }),
  ),
  headers: await getHeaders(),
  form: await data(
    POST("/v1/form", {
      body: { userName: "Ada L.", age: 36, admin: true, pace: "very-slow", tags: ["a", "b"] },
      headers: { "content-type": "application/x-www-form-urlencoded" },
      // The default serializer separates the items of an array by commas.
      bodySerializer: (body) =>
        new URLSearchParams(
          Object.entries(body ?? {}).flatMap(([name, value]) => [value].flat().map((each) => [name, String(each)])),
        ),
    }),
  ),
  watch: await data(GET("/v1/gadgets:watch", { params: { query: { count: 2 } } })),
  missing: await getMissing(),
  delete: (await DELETE("/v1/shops/{shop}/gadgets/{gadget_id}", { params: { path } })).response.status,
};
console.log(JSON.stringify(outcomes));
