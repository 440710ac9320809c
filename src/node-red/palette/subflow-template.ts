import { type Fields, isFields } from "../../base/fields.ts";
import type { ModuleSubflow } from "../../modules/subflows.ts";

/**
 * The template of the nodes of a subflow that a module defines; undefined: the subflow is malformed. The text is that of Node-RED
 * (`generateSubflowConfig` of @node-red/registry, Apache License 2.0), whose editor runs it. Loading that would load Node-RED into this process.
 */
export function createSubflowTemplate({ type, definition }: ModuleSubflow): string | undefined {
  const { name, category, color, in: inputs, out: outputs, icon, info, env } = definition;
  const properties = readProperties(env || []);
  if (properties === undefined) {
    return undefined;
  }
  const label = textOr(name, type);
  const defaults = {
    name: { value: "" },
    ...Object.fromEntries(properties.map((each) => [each.name, toDefault(each)])),
  };
  const credentials = Object.fromEntries(
    properties.filter(isCredential).map((each) => [each.name, { type: "password" }]),
  );
  const help =
    typeof info === "string" && info !== ""
      ? `<script type="text/markdown" data-help-name="${type}">${info}</script>`
      : "";
  return `<script type="text/javascript">
    RED.nodes.registerType("${type}",{
        subflowModule: true,
        category: "${textOr(category, "function")}",
        color: "${textOr(color, "#C0DEED")}",
        defaults: ${JSON.stringify(defaults)},
        credentials: ${JSON.stringify(credentials)},
        inputs:${countOf(inputs)},
        outputs:${countOf(outputs)},
        icon: "${textOr(icon, "arrow-in.svg")}",
        paletteLabel: "${label}",
        label: function() {
            return this.name||"${label}";
        },
        labelStyle: function() {
            return this.name?"node_label_italic":"";
        },
        oneditprepare: function() {
            RED.subflow.buildEditForm('subflow', this);
        },
        oneditsave: function() {
            var props = RED.subflow.exportSubflowInstanceEnv(this);
            var i=0,l=props.length;
            for (;i<l;i++) {
                var prop = props[i];
                if (this._def.defaults[prop.name].ui && this._def.defaults[prop.name].ui.type === "cred") {
                    this[prop.name] = "";
                    this.credentials[prop.name] = prop.value || "";
                    this.credentials['has_' + prop.name] = (this.credentials[prop.name] !== "");
                } else {
                    switch(prop.type) {
                        case "str": case "conf-type": this[prop.name] = prop.value||""; break;
                        case "bool": this[prop.name] = (typeof prop.value === 'boolean')?prop.value:prop.value === "true" ; break;
                        case "num": this[prop.name] = (typeof prop.value === 'number')?prop.value:Number(prop.value); break;
                        default:
                            this[prop.name] = {
                                type: prop.type,
                                value: prop.value||""
                            }
                    }
                }
            }
        }
    });
</script>
<script type="text/x-red" data-template-name="${type}">
    <div class="form-row">
        <label for="node-input-name" data-i18n="[append]editor:common.label.name"><i class="fa fa-tag"></i> </label>
        <input type="text" id="node-input-name" data-i18n="[placeholder]editor:common.label.name">
    </div>
    <div id="subflow-input-ui"></div>
</script>
${help}
`;
}

/** A property that the nodes of a subflow have, which becomes an environment variable within it. */
type Property = { readonly name: string; readonly type: unknown; readonly value: unknown; readonly ui: unknown };

/** Undefined: they are malformed. */
function readProperties(env: unknown): Property[] | undefined {
  if (!Array.isArray(env) || !env.every(isFields)) {
    return undefined;
  }
  const properties = env.map(({ name, type, value, ui }: Fields) => ({ name: String(name), type, value, ui }));
  return properties.every((each) => !isCredential(each) || isFields(each.ui)) ? properties : undefined;
}

function isCredential({ type }: Property): boolean {
  return type === "cred";
}

function toDefault({ type, value, ui }: Property): object {
  switch (type) {
    case "cred":
      return { value: "", ui: { ...(ui as Fields), type: "cred" } };
    case "str":
      return { value: value || "", ui };
    case "bool":
      return { value: typeof value === "boolean" ? value : value === "true", ui };
    case "num":
      return { value: typeof value === "number" ? value : Number(value), ui };
    default:
      return { value: { type, value: value || "" }, ui };
  }
}

function textOr(value: unknown, fallback: string): string {
  return typeof value === "string" && value !== "" ? value : fallback;
}

function countOf(ports: unknown): number {
  return Array.isArray(ports) ? ports.length : 0;
}
