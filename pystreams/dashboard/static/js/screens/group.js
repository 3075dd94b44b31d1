import { h } from "../dom.js";
export async function group() { return { title: "group", element: h("div", {}, "group") }; }
