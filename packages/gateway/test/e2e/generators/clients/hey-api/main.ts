import * as sdk from "./generated";
import { client } from "./generated/client.gen";
import { gadget, query } from "./gadget";

client.setConfig({ baseUrl: process.argv[2], throwOnError: true });
const path = { shop: "main street", gadget_id: "50%" };

async function data<T>(result: Promise<{ data: T }>): Promise<T> {
  return (await result).data;
}

async function getHeaders() {
  const headers = { "X-Pace": "very-slow", "X-Count": 3 } as const;
  const { data, response } = await sdk.gadgetsServiceGetHeaders({ headers, throwOnError: true });
  return { ...data, count: Number(response.headers.get("X-Count")) };
}

async function getMissing() {
  const { error, response } = await sdk.gadgetsServiceGetGadget({
    path: { ...path, gadget_id: "none" },
    throwOnError: false,
  });
  return { status: response?.status, body: error };
}

const throwOnError = true;
const outcomes = {
  save: await data(
    sdk.gadgetsServiceSaveGadget({
      path,
      query: { updateMask: "text,maybeText", validateOnly: true },
      body: gadget,
      throwOnError,
    }),
  ),
  get: await data(sdk.gadgetsServiceGetGadget({ path, throwOnError })),
  check: await data(sdk.gadgetsServiceCheckGadget({ body: gadget, throwOnError })),
  add: await data(
    sdk.gadgetsServiceAddPart({ path: { label: "new part" }, body: { weight: "9007199254740993" }, throwOnError }),
  ),
  find: await data(sdk.gadgetsServiceFindGadgets({ query, throwOnError })),
  names: await data(
    sdk.gadgetsServiceListNames({
      path: { text: "a/b", small: -3, large: "9007199254740993", ratio: 1.5, flag: true, colour: "COLOUR_RED" },
      throwOnError,
    }),
  ),
  headers: await getHeaders(),
  form: await data(
    sdk.gadgetsServiceSendForm({
      body: { userName: "Ada L.", age: 36, admin: true, pace: "very-slow", tags: ["a", "b"] },
      throwOnError,
    }),
  ),
  watch: await data(sdk.gadgetsServiceWatchGadgets({ query: { count: 2 }, throwOnError })),
  missing: await getMissing(),
  delete: (await sdk.gadgetsServiceDeleteGadget({ path, throwOnError })).response.status,
};
console.log(JSON.stringify(outcomes));
