const deployment = ["/flows", "post"];

/**
 * A plugin of Swagger UI that keeps "Try it out" from changing something by accident. The body of a deployment is what is active, with
 * its revision, so that nothing changes before it is edited; the examples would replace all flows. Each request that can change
 * something is confirmed.
 */
export function guardFlows({ paths }) {
  return () => ({
    wrapComponents: { RequestBody: fillBody, execute: (Original, system) => confirmed(Original, system, paths) },
  });
}

const fillBody = (Original, system) => (properties) => {
  const { React } = system;
  const { specPath, isExecute } = properties;
  const isDeployment = deployment.every((part, at) => specPath.get(at + 1) === part);
  const [active, setActive] = React.useState();
  React.useEffect(() => {
    if (isDeployment && isExecute) {
      void readDeployment(system).then(setActive);
    }
  }, [isDeployment, isExecute]);
  // After the page has shown the example for the headers, which would replace it.
  React.useEffect(() => {
    if (active !== undefined) {
      setBody(system, active.body);
    }
  }, [active]);
  return React.createElement(Original, properties);
};

function setBody({ oas3Actions }, value) {
  oas3Actions.setRequestBodyValue({ pathMethod: deployment, value });
}

/** Sets the headers, and returns what is active as a body; an object, as it is another one each time. */
async function readDeployment(system) {
  const { authSelectors, specActions, specSelectors } = system;
  const parameters = specSelectors.specResolvedSubtree(["paths", ...deployment, "parameters"]);
  const setHeader = (name, value) => {
    const parameter = parameters.find((each) => each.get("name") === name);
    specActions.changeParamByIdentity(deployment, parameter, value, false);
  };
  setHeader("Service-API-Version", "v2");
  // Restarts nothing if nothing is changed.
  setHeader("Service-Deployment-Type", "nodes");
  setBody(system, "");
  const authorized = authSelectors.authorized();
  const token = authorized?.getIn(["login", "token", "access_token"]) ?? authorized?.getIn(["token", "value"]);
  const response = await fetch("flows", {
    headers: { "Service-API-Version": "v2", ...(token && { Authorization: `Bearer ${token}` }) },
  });
  // Without permission to read the flows, the body remains empty, which is rejected.
  return { body: response.ok ? JSON.stringify(await response.json(), undefined, 2) : "" };
}

const confirmed =
  (Original, { React }, paths) =>
  (properties) => {
    const { path, method } = properties;
    const { summary, security = [] } = paths[path][method];
    const changes = security
      .flatMap((scheme) => Object.values(scheme).flat())
      .filter((permission) => !permission.endsWith(".read"));
    const changesFlows = changes.some((permission) => /^flows\.(?:write|approve)$/.test(permission));
    const onClickCapture = (event) => {
      const what = changesFlows ? "the flows that run on" : "data or settings of";
      const question = `${method.toUpperCase()} ${path} can change ${what} ${location.host}.\n\n${summary}\n\nSend it?`;
      if (method !== "get" && changes.length > 0 && !confirm(question)) {
        event.stopPropagation();
      }
    };
    return React.createElement(
      "div",
      { className: "execute-guard", onClickCapture },
      React.createElement(Original, properties),
    );
  };
