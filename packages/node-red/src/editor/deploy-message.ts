/** The header field with the message of a deployment, which is percent-encoded. */
export const messageHeader = "node-red-deployment-message";

/**
 * A script of the editor's page, which Node-RED's option `editorTheme.page.scripts` is for: an entry of the Deploy menu that asks for a message
 * of the revision. It uses functions that the editor has for modules.
 */
export const deployMessageScript = `(() => {
  const action = "flowgate:deploy-with-message";
  const deployment = "core:deploy-flows";
  const menu = "red-ui-header-button-deploy-options";
  const button = "red-ui-header-button-deploy";
  let message = "";

  const isDeployment = ({ type, url, headers }) =>
    type === "POST" && url === "flows" && headers?.["Node-RED-Deployment-Type"] !== "reload";
  $.ajaxPrefilter((options) => {
    if (message !== "" && isDeployment(options)) {
      options.headers = { ...options.headers, "${messageHeader}": encodeURIComponent(message.toWellFormed()) };
    }
  });
  // It is kept while the user reviews conflicts or confirms warnings.
  $(document).on("ajaxSuccess", (_event, _request, options) => {
    if (isDeployment(options)) {
      message = "";
    }
  });
  // Another deployment begins, by a shortcut or by the button.
  const invoke = RED.actions.invoke;
  RED.actions.invoke = (name, ...args) => {
    if (name === deployment) {
      message = "";
    }
    return invoke(name, ...args);
  };
  document.addEventListener("click", ({ target }) => {
    if (target.closest?.("#" + button)) {
      message = "";
    }
  }, true);

  function ask() {
    if ($("#" + button).hasClass("disabled")) {
      RED.notify($("<p>").text("There is nothing to deploy."), { type: "compact", timeout: 3000 });
      return;
    }
    const input = $("<input>", { id: "flowgate-deploy-message", type: "text", maxlength: 1000 }).css("width", "100%").val(message);
    const content = $("<div>").append($("<p>").append($("<label>", { for: input.attr("id") }).text("Message of the revision")), input);
    const deploy = () => {
      message = input.val().trim();
      notification.close();
      invoke(deployment);
    };
    const notification = RED.notify(content, {
      modal: true,
      fixed: true,
      buttons: [
        { text: RED._("common.label.cancel"), click: () => notification.close() },
        { text: RED._("deploy.deploy"), class: "primary", click: deploy },
      ],
    });
    input.on("keydown", ({ key }) => {
      if (key === "Enter") {
        deploy();
      } else if (key === "Escape") {
        notification.close();
      }
    });
    // After the editor has set the focus to a button.
    setTimeout(() => input.trigger("focus"), 10);
  }

  RED.actions.add(action, ask);
  const createMenu = RED.menu.init;
  RED.menu.init = (options) => {
    if (options.id === menu) {
      options.options.push({
        id: "deploymenu-item-message",
        icon: "red/images/deploy-full.svg",
        label: "Deploy with a message",
        sublabel: "A comment that is kept with the revision",
        onselect: action,
      });
    }
    return createMenu(options);
  };
})();
`;
