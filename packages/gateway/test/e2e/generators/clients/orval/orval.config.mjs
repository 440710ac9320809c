/** Paths are relative to the folder of the client. */
export default {
  gadgets: {
    input: "openapi.json",
    output: {
      target: "generated/client.ts",
      client: "fetch",
      baseUrl: { runtime: "process.argv[2]" },
      urlEncodeParameters: true,
    },
  },
};
