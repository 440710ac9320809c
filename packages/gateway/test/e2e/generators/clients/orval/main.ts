import * as api from "./generated/client";
import { gadget, query } from "./gadget";

const name = ["main street", "50%"] as const;

/** The parameters in headers are not typed. */
async function getHeaders() {
  const { data, headers } = await api.gadgetsServiceGetHeaders({ headers: { "X-Pace": "very-slow", "X-Count": "3" } });
  return { ...data, count: Number(headers.get("X-Count")) };
}

async function getMissing() {
  const { status, data } = await api.gadgetsServiceGetGadget("main street", "none");
  return { status, body: data };
}

/** The client does not read the response. */
async function watch() {
  const response = await api.gadgetsServiceWatchGadgets({ count: 2 });
  return "stream" in response ? await response.stream.json() : response.data;
}

const outcomes = {
  save: (await api.gadgetsServiceSaveGadget(...name, gadget, { updateMask: "text,maybeText", validateOnly: true }))
    .data,
  get: (await api.gadgetsServiceGetGadget(...name)).data,
  check: (await api.gadgetsServiceCheckGadget(gadget)).data,
  add: (await api.gadgetsServiceAddPart("new part", { weight: "9007199254740993" })).data,
  find: (await api.gadgetsServiceFindGadgets(query)).data,
  names: (await api.gadgetsServiceListNames("a/b", -3, "9007199254740993", 1.5, true, "COLOUR_RED")).data,
  headers: await getHeaders(),
  form: (
    await api.gadgetsServiceSendForm({ userName: "Ada L.", age: 36, admin: true, pace: "very-slow", tags: ["a", "b"] })
  ).data,
  watch: await watch(),
  missing: await getMissing(),
  delete: (await api.gadgetsServiceDeleteGadget(...name)).status,
};
console.log(JSON.stringify(outcomes));
