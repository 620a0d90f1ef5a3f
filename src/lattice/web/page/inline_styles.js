// xterm.js writes its styles as text, which the page's policy forbids, because text could come from anywhere. What it writes is its own,
// so it is handed to the browser through the object model, which the policy allows.
let isMended = false;

export function allowOwnStyles() {
  if (isMended) return;
  isMended = true;
  const create = document.createElement.bind(document);
  document.createElement = (name, options) => {
    return String(name).toLowerCase() === "style" ? sheetBehind(create("div")) : create(name, options);
  };
  const setAttribute = Element.prototype.setAttribute;
  Element.prototype.setAttribute = function set(name, value) {
    if (name === "style") this.style.cssText = value;
    else setAttribute.call(this, name, value);
  };
}

// Stands for a <style> element: stays empty, and its text becomes a sheet of the document while it is in use.
function sheetBehind(element) {
  const sheet = new CSSStyleSheet();
  element.hidden = true;
  let text = "";
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
  Object.defineProperty(element, "textContent", {
    get: () => text,
    set(value) {
      text = String(value);
      sheet.replaceSync(text);
    },
  });
  const remove = element.remove.bind(element);
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((each) => each !== sheet);
    remove();
  };
  return element;
}
