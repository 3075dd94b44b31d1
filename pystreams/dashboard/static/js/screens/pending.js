import { h } from "../dom.js";
export async function pending() { return { title: "pending", element: h("div", {}, "pending") }; }
