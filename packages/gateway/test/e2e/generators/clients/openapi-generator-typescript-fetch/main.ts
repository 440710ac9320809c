import * as json from "./gadget";
import {
  Configuration,
  FindGadgetsResponseToJSON,
  GadgetsServiceApi,
  GadgetToJSON,
  ModelErrorFromJSON,
  PartToJSON,
  ResponseError,
  type Gadget,
} from "./generated";

const { double, class: word, default: other, timestamp, timestamps, ...same } = json.gadget;
const gadget: Gadget = {
  ...same,
  _double: double,
  _class: word,
  _default: other,
  timestamp: new Date(timestamp),
  timestamps: timestamps.map((time) => new Date(time)),
};
const { since, "page.size": pageSize, "page.token": pageToken, ...query } = json.query;

const api = new GadgetsServiceApi(new Configuration({ basePath: process.argv[2] }));
const name = { shop: "main street", gadgetId: "50%" };

async function getHeaders() {
  const response = await api.gadgetsServiceGetHeadersRaw({ xPace: "very-slow", xCount: 3 });
  return { ...(await response.value()), count: Number(response.raw.headers.get("X-Count")) };
}

async function getMissing() {
  try {
    return await api.gadgetsServiceGetGadget({ ...name, gadgetId: "none" });
  } catch (error) {
    if (!(error instanceof ResponseError)) {
      throw error;
    }
    return { status: error.response.status, body: ModelErrorFromJSON(await error.response.json()) };
  }
}

const outcomes = {
  save: GadgetToJSON(
    await api.gadgetsServiceSaveGadget({ ...name, gadget, updateMask: "text,maybeText", validateOnly: true }),
  ),
  get: GadgetToJSON(await api.gadgetsServiceGetGadget(name)),
  check: GadgetToJSON(await api.gadgetsServiceCheckGadget({ gadget })),
  add: PartToJSON(await api.gadgetsServiceAddPart({ label: "new part", partBody: { weight: "9007199254740993" } })),
  find: FindGadgetsResponseToJSON(
    await api.gadgetsServiceFindGadgets({ ...query, since: new Date(since), pageSize, pageToken }),
  ),
  names: await api.gadgetsServiceListNames({
    text: "a/b",
    small: -3,
    large: "9007199254740993",
    ratio: 1.5,
    flag: true,
    colour: "COLOUR_RED",
  }),
  headers: await getHeaders(),
  form: await api.gadgetsServiceSendForm({
    userName: "Ada L.",
    age: 36,
    admin: true,
    pace: "very-slow",
    tags: ["a", "b"],
  }),
  watch: await api.gadgetsServiceWatchGadgets({ count: 2 }),
  missing: await getMissing(),
  delete: (await api.gadgetsServiceDeleteGadgetRaw(name)).raw.status,
};
console.log(JSON.stringify(outcomes));
