import { h } from "../dom.js";
export async function letters() { return { title: "letters", element: h("div", {}, "letters") }; }
