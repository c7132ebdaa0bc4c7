// Elements as tagged templates. What stands in a template is text or an attribute, never markup, so a name that
// looks like an element is shown as it is written.
import { Component, h, render } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export const html = htm.bind(h);
export { Component, render };
