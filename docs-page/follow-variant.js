const header = "Service-API-Version";

/**
 * A plugin of Swagger UI: the examples of bodies follow the header that selects the variant of an operation, and the header
 * follows the example that is chosen for the request. The names of these examples start with a value of the header. A body that
 * was edited is kept.
 */
export function followVariant() {
  return {
    statePlugins: {
      spec: { wrapActions: { changeParamByIdentity } },
      oas3: { wrapActions: { setActiveExamplesMember } },
    },
  };
}

const changeParamByIdentity = (change, system) => (pathMethod, parameter, value, isXml) => {
  const { oas3Actions, oas3Selectors } = system;
  const isEdited = oas3Selectors.hasUserEditedBody(...pathMethod);
  const result = change(pathMethod, parameter, value, isXml);
  if (parameter.get("name") !== header) {
    return result;
  }
  for (const { contextType, contextName, examples } of bodiesOf(system, pathMethod)) {
    const name = examples.keySeq().find((each) => each.startsWith(value));
    const active = oas3Selectors.activeExamplesMember(...pathMethod, contextType, contextName);
    if (name === undefined || active?.startsWith(value)) {
      continue;
    }
    oas3Actions.setActiveExamplesMember({ name, pathMethod, contextType, contextName });
    if (contextType === "requestBody" && !isEdited) {
      const body = JSON.stringify(examples.getIn([name, "value"]), undefined, 2);
      oas3Actions.setRequestBodyValue({ pathMethod, value: body });
    }
  }
  return result;
};

const setActiveExamplesMember =
  (select, { specActions, specSelectors }) =>
  (selection) => {
    const { name, pathMethod, contextType } = selection;
    const result = select(selection);
    const parameter = specSelectors
      .specResolvedSubtree(["paths", ...pathMethod, "parameters"])
      ?.find((each) => each.get("name") === header);
    const value = parameter?.getIn(["schema", "enum"])?.find((each) => name.startsWith(each));
    if (contextType === "requestBody" && value !== undefined) {
      if (specSelectors.parameterWithMetaByIdentity(pathMethod, parameter).get("value") !== value) {
        specActions.changeParamByIdentity(pathMethod, parameter, value, false);
      }
    }
    return result;
  };

/** The bodies of an operation that have examples in JSON. */
function bodiesOf({ specSelectors }, pathMethod) {
  const operation = specSelectors.specResolvedSubtree(["paths", ...pathMethod]);
  const responses = operation?.get("responses")?.entrySeq().toArray() ?? [];
  return [
    { contextType: "requestBody", contextName: "requestBody", body: operation?.get("requestBody") },
    ...responses.map(([contextName, body]) => ({ contextType: "responses", contextName, body })),
  ].flatMap(({ body, ...context }) => {
    const examples = body?.getIn(["content", "application/json", "examples"]);
    return examples === undefined ? [] : [{ ...context, examples }];
  });
}
