// The few names of preact and htm that the page uses, and a value that components can watch.
import { Component, Fragment, h, render } from "/assets/vendor/preact.mjs";
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "/assets/vendor/hooks.mjs";
import htm from "/assets/vendor/htm.mjs";

export const html = htm.bind(h);
export { Component, Fragment, render, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState };

// A value outside of components: `use` in a component draws it again whenever the value changes.
export function watched(initial) {
  let value = initial;
  const listeners = new Set();
  return {
    get: () => value,
    set(next) {
      if (next === value) return;
      value = next;
      for (const listener of [...listeners]) listener(value);
    },
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    use() {
      const [, draw] = useState(0);
      useEffect(() => {
        const again = () => draw((count) => count + 1);
        listeners.add(again);
        return () => listeners.delete(again);
      }, []);
      return value;
    },
  };
}

// Whether the server answers; false from the first request that got none until one gets an answer again.
export const reachable = watched(true);

// How often somebody logged in again on this page.
export const logins = watched(0);

// Asks again once the server is back, or the person is, where the last question got no answer: nothing may change for a long time afterwards.
export function useReturn(error, again) {
  const isLost = error?.code === "unreachable" || error?.status === 503;
  const isOut = error?.status === 401;
  useEffect(() => (isLost ? reachable.listen((isBack) => isBack && again()) : undefined), [isLost, again]);
  useEffect(() => (isOut ? logins.listen(again) : undefined), [isOut, again]);
}

// The answer of an asynchronous question: {data, error, isLoading, reload}. A newer question makes older answers void.
export function useAnswer(ask, inputs) {
  const [answer, setAnswer] = useState({ data: null, error: null, isLoading: true });
  const [round, setRound] = useState(0);
  useEffect(() => {
    let isCurrent = true;
    setAnswer((before) => ({ ...before, isLoading: true }));
    ask().then(
      (data) => isCurrent && setAnswer({ data, error: null, isLoading: false }),
      (error) => isCurrent && setAnswer((before) => ({ data: before.data, error, isLoading: false })),
    );
    return () => {
      isCurrent = false;
    };
  }, [...inputs, round]);
  const reload = useCallback(() => setRound((count) => count + 1), []);
  useReturn(answer.error, reload);
  return { ...answer, reload };
}

// Calls `act` every `everyMs` while the page is visible.
export function useInterval(act, everyMs) {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    const timer = setInterval(() => document.visibilityState === "visible" && latest.current(), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
}
