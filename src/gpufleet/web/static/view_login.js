// The form for a token, where a cluster's page has no proxy before it that logs people in.
import { Component, html } from "./html.js";
import { asked } from "./wire.js";

const sentence = (words) => `${words[0].toUpperCase()}${words.slice(1)}.`;

export class Login extends Component {
  state = { problem: "", isAsking: false };

  async enter(event) {
    event.preventDefault();
    const token = event.target.elements.token.value.trim();
    this.setState({ isAsking: true, problem: "" });
    try {
      await asked("api/login", { method: "POST", headers: { Authorization: `Bearer ${token}` } });
      location.reload();
    } catch (refused) {
      this.setState({ isAsking: false, problem: refused.words ?? "A token is one line of letters and digits." });
    }
  }

  render({ refusal }, { problem, isAsking }) {
    const words = html`<p class="lead">${sentence(refusal.problem)}${refusal.way_out ? ` ${sentence(refusal.way_out)}` : ""}</p>`;
    if (!refusal.login) return html`<section class="login"><h1>You see nothing yet</h1>${words}</section>`;
    return html`<form class="login" onSubmit=${(event) => this.enter(event)}><h1>Log in</h1>${words}
      <label><span>Token of a service account or of your login</span><input name="token" type="password" autocomplete="off" required /></label>
      ${problem ? html`<p class="wrong" role="alert">${problem}</p>` : null}
      <button class="main" disabled=${isAsking}>Log in</button>
      <p class="muted">You see what the cluster lets you see. <code>kubectl create token NAME</code> makes one.</p></form>`;
  }
}
