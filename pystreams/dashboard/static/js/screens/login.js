// Login, as a user of the server or with the token that the dashboard prints when it starts.

import { HERE, post, remember, state } from "../api.js";
import { h, replace } from "../dom.js";
import { field } from "../parts.js";

export function login(failed, entered) {
  const user = h("input", { name: "user", autocomplete: "username", spellcheck: "false", autocapitalize: "none" });
  const password = h("input", { name: "password", type: "password", autocomplete: "current-password" });
  const token = h("input", { name: "token", type: "password", autocomplete: "off" });
  const problem = h("p", { class: "error", role: "alert" }, failed);
  const go = h("button", { type: "submit", class: "button primary" }, "Log in");
  const form = h("form", { onsubmit: async (event) => {
    event.preventDefault();
    go.disabled = true;
    problem.replaceChildren();
    try {
      remember(await post("login", token.value ? { token: token.value } : { user: user.value, password: password.value }));
      entered();
    } catch (failure) {
      replace(problem, failure.message);
      go.disabled = false;
    }
  } },
  h("div", { class: "brand" }, h("img", { src: "/static/icon.svg", alt: "" }), "pystreams"),
  h("div", {}, h("h1", {}, "Log in"), h("p", { class: "muted mono" }, state.server)),
  state.oidc ? h("a", { class: "button primary", href: "/oidc/login" }, "Log in with single sign-on") : null,
  field("User", user), field("Password", password),
  h("p", { class: "hint" }, "A user of the server's ACL. If the server has no password, leave both empty."),
  h("details", {}, h("summary", {}, "Log in with a token"), field("Token", token),
    h("p", { class: "hint" }, "'pystreams ui' prints the token at the end of the URL when it starts.")),
  problem, go, HERE ? h("p", { class: "hint" }, h("a", { href: "/#/servers" }, "All servers")) : null);
  return h("main", { id: "main", class: "login" }, h("div", { class: "panel card" }, form));
}
