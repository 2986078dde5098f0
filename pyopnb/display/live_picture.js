// Lets the pictures of graphs beside this script answer, in a trusted output or a page: what is pointed at or clicked tells what it
// is, a click leads to its rows in the tables of the same output and back, and the picture can be zoomed and dragged.
//
// A picture is an <img> in an element with the class pyopnb-graph, whose data-boxes has, compressed, for each box of the SVG, its
// text and the keys of its rows. All of that text is set as text, never as HTML.
(() => {
  'use strict';

  // Of words that an image shows on a page that may be light or dark. In the page itself they have the page's color.
  const INK = '#757b82';

  const STYLE = `
    :host { display: flex; align-items: flex-start; gap: 4px; }
    .view { overflow: auto; min-width: 0; outline-offset: 2px; cursor: grab; }
    .view.dragged { cursor: grabbing; user-select: none; }
    svg { display: block; user-select: none; }
    svg > path, svg > text { pointer-events: none; }
    .chosen, svg > :focus-visible { outline: 3px solid #0969da; outline-offset: 2px; }
    svg > :focus:not(:focus-visible) { outline: none; }
    .tools { display: flex; flex-direction: column; gap: 2px; opacity: 0; transition: opacity .15s; }
    :host(:hover) .tools, :host(:focus-within) .tools { opacity: 1; }
    .tools button { width: 24px; height: 24px; padding: 0; font: 13px/1 system-ui, sans-serif; }
    button, .card {
      border: 1px solid rgba(128, 128, 128, .55); border-radius: 4px;
      background: var(--jp-layout-color1, var(--vscode-editor-background, Canvas));
      color: var(--jp-content-font-color1, var(--vscode-editor-foreground, CanvasText));
    }
    button { cursor: pointer; }
    .card {
      position: fixed; inset: auto; margin: 0; padding: 6px 10px; max-width: min(440px, 90vw); max-height: 50vh; overflow: auto;
      box-sizing: border-box; box-shadow: 0 2px 8px rgba(0, 0, 0, .3); font: 12px/1.45 system-ui, sans-serif;
      pointer-events: none; white-space: pre-wrap; overflow-wrap: anywhere;
    }
    .card.kept { pointer-events: auto; }
    .card div:first-child { font-weight: 600; font-size: 13px; }
    .card button { font: inherit; margin: 4px 4px 0 0; padding: 1px 6px; }`;

  const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

  const unpack = async (text) =>
    new Response(new Blob([bytesOf(text)]).stream().pipeThrough(new DecompressionStream('gzip'))).json();

  const element = (tag, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };

  // Shows what is in folded parts of the page.
  const reveal = (node) => {
    for (let fold = node.closest('details'); fold; fold = fold.parentElement.closest('details')) {
      fold.open = true;
    }
  };

  const outputOf = (node) => {  // the outermost, as an output with tables contains the one of its model
    let output = node.closest('.pyopnb-output');
    while (output?.parentElement?.closest('.pyopnb-output')) {
      output = output.parentElement.closest('.pyopnb-output');
    }
    return output || node;
  };

  const animate = async (place) => {
    const packed = place.dataset.boxes;
    delete place.dataset.boxes;
    const boxes = await unpack(packed);
    const image = place.querySelector('img');
    const text = new TextDecoder().decode(bytesOf(image.src.split(',')[1]));
    const svg = document.importNode(new DOMParser().parseFromString(text, 'image/svg+xml').documentElement, true);
    for (const style of svg.querySelectorAll('style')) {
      style.textContent = style.textContent.replaceAll(`fill:${INK}`, 'fill:currentColor');
    }
    const shapes = [...svg.children].filter((child) => child.matches('g, use'));
    if (shapes.length !== boxes.length) {
      return;
    }
    const indices = new Map(shapes.map((shape, index) => [shape, index]));
    const [width, height] = ['width', 'height'].map((name) => Number(svg.getAttribute(name)));
    const output = outputOf(place);

    // A shadow, so that neither the ids and classes of two pictures nor the page's styles meet.
    const host = element('div');
    host.dataset.lmSuppressShortcuts = 'true';  // of JupyterLab, in whose command mode a typed 0 0 restarts the kernel
    const shadow = host.attachShadow({mode: 'open'});
    const view = element('div', {className: 'view', tabIndex: 0});
    view.setAttribute('role', 'group');
    view.setAttribute('aria-label', image.alt);
    view.style.maxHeight = image.parentElement.style.maxHeight || '';
    view.style.border = image.parentElement.style.border || '';
    const card = element('div', {className: 'card', hidden: true});
    if (card.showPopover) {
      card.popover = 'manual';  // above everything, and cut by nothing around it
    }
    view.append(svg);

    // ---- what a box tells

    let kept = -1;
    let shown = -1;

    const about = (index) => boxes[index][1].flatMap((key) => [...output.querySelectorAll(`[data-pyopnb~="${key}"]`)]);
    const rowsOf = (index) => about(index).filter((found) => found.cells);
    const foldOf = (index) => about(index).find((found) => found.matches('details'));

    const put = () => {  // beside the box, within the window
      const box = shapes[shown].getBoundingClientRect();
      const frame = view.getBoundingClientRect();
      const own = card.getBoundingClientRect();
      const right = Math.min(box.right, frame.right) + 8;
      const left = right + own.width < innerWidth ? right : Math.max(box.left, frame.left) - own.width - 8;
      card.style.left = `${Math.max(4, Math.min(left, innerWidth - own.width - 4))}px`;
      const top = Math.max(box.top, frame.top);
      card.style.top = `${Math.max(4, Math.min(top, innerHeight - own.height - 4))}px`;
    };

    const inSight = (shape) => {
      const box = shape.getBoundingClientRect();
      const cuts = ({top, bottom, left, right}) => box.bottom < top || box.top > bottom || box.right < left || box.left > right;
      if (cuts({top: 0, bottom: innerHeight, left: 0, right: innerWidth}) || cuts(view.getBoundingClientRect())) {
        return false;
      }
      for (let around = host.parentElement; around; around = around.parentElement) {
        if (getComputedStyle(around).overflow !== 'visible' && cuts(around.getBoundingClientRect())) {
          return false;
        }
      }
      return true;
    };

    const hide = () => {
      shapes[shown]?.classList.remove('chosen');
      kept = shown = -1;
      card.hidden = true;
      if (card.matches(':popover-open')) {
        card.hidePopover();
      }
    };

    const tell = (index, keep) => {
      const fold = foldOf(index);
      if (fold && keep) {
        lead(fold);
        fold.firstChild.focus({preventScroll: true});
        return;
      }
      if (shown !== index || keep !== kept >= 0) {
        hide();
        const [about] = boxes[index];
        if (!about) {
          return;
        }
        shown = index;
        kept = keep ? index : -1;
        shapes[index].classList.add('chosen');
        card.classList.toggle('kept', keep);
        const [title, ...lines] = about.split('\n');
        card.replaceChildren(element('div', {}, title), element('div', {}, lines.join('\n')));
        const rows = rowsOf(index);
        if (keep) {
          card.append(...rows.map((row) => element('button', {onclick: () => lead(row)}, `▸ ${titleOf(row)}`)));
          card.append(element('button', {onclick: close, title: 'Esc', ariaLabel: 'close'}, '✕'));
        } else if (rows.length || fold) {
          const text = fold ? 'click: open it' : `click: ${rows.length === 1 ? 'row' : 'rows'} in the tables`;
          card.append(element('div', {style: 'opacity:.7'}, text));
        }
        card.hidden = false;
        card.showPopover?.();
        put();
      }
    };

    const close = () => {  // and go on at the box
      const box = shapes[kept];
      hide();
      box?.focus({preventScroll: true});
    };

    const titleOf = (row) => {
      const title = row.closest('details')?.querySelector('summary')?.textContent || 'table';
      return title.split(/[:,]/)[0].slice(0, 60);
    };

    const lead = (row) => {
      hide();
      reveal(row);
      row.scrollIntoView({block: row.cells ? 'center' : 'nearest'});
      row.animate([{backgroundColor: 'rgba(255, 196, 0, .6)'}, {backgroundColor: 'rgba(255, 196, 0, 0)'}], 2500);
    };

    const center = (index) => {
      const box = shapes[index].getBoundingClientRect();
      const frame = view.getBoundingClientRect();
      view.scrollLeft += box.left + box.width / 2 - frame.left - frame.width / 2;
      view.scrollTop += box.top + box.height / 2 - frame.top - frame.height / 2;
    };

    const lookAt = (index) => {
      reveal(place);
      center(index);
      host.scrollIntoView({block: 'nearest'});
      tell(index, true);
    };

    const boxAt = (event) => {
      let node = event.composedPath()[0];
      while (node && node.parentNode !== svg) {
        node = node.parentNode;
      }
      return indices.get(node) ?? -1;
    };

    // ---- by keyboard: each box is a tab stop, Enter opens its card, and Esc closes it

    shapes.forEach((shape, index) => {
      const [title] = boxes[index][0].split('\n');
      if (title) {
        shape.setAttribute('tabindex', '0');
        shape.setAttribute('role', 'button');
        shape.setAttribute('aria-label', title);
      }
    });
    svg.addEventListener('keydown', (event) => {
      const index = boxAt(event);
      if (index >= 0 && (event.key === 'Enter' || event.key === ' ')) {
        event.preventDefault();
        event.stopPropagation();
        tell(index, true);
        card.querySelector('button')?.focus({preventScroll: true});
      }
    });
    card.addEventListener('keydown', (event) => {
      event.stopPropagation();
      if (event.key === 'Escape') {
        close();
      }
    });

    // ---- from the tables back

    const keys = new Map();
    boxes.forEach(([, own], index) => own.forEach((key) => keys.has(key) || keys.set(key, index)));
    for (const row of output.querySelectorAll('[data-pyopnb]')) {
      const key = row.dataset.pyopnb.split(' ').find((one) => keys.has(one));
      const cell = row.matches('details') ? null : row.cells?.[0] ?? row;
      if (key && cell && cell.tabIndex !== 0) {
        Object.assign(cell, {tabIndex: 0, title: 'show it in the picture'});
        Object.assign(cell.style, {cursor: 'pointer', textDecoration: 'underline dotted'});
        cell.addEventListener('click', () => lookAt(keys.get(key)));
        cell.addEventListener('keydown', (event) => event.key === 'Enter' && lookAt(keys.get(key)));
      }
    }

    // ---- zoom and drag

    let zoom = 0;  // as wide as there is space
    if (!view.style.maxHeight) {
      svg.style.cssText = 'max-width:100%;height:auto';
    }
    const zoomTo = (wanted, x, y) => {
      const before = svg.getBoundingClientRect();
      const frame = view.getBoundingClientRect();
      const [atX, atY] = [x ?? frame.left + frame.width / 2, y ?? frame.top + frame.height / 2];
      const [partX, partY] = [(atX - before.left) / before.width, (atY - before.top) / before.height];
      zoom = Math.min(8, Math.max(0.01, wanted));
      view.style.height ||= `${frame.height}px`;  // the page below stays where it is
      svg.style.cssText = `max-width:none;width:${width * zoom}px;height:${height * zoom}px`;
      const after = svg.getBoundingClientRect();
      view.scrollLeft += after.left + partX * after.width - atX;
      view.scrollTop += after.top + partY * after.height - atY;
      if (kept >= 0) {
        put();
      }
    };
    const scale = () => zoom || svg.getBoundingClientRect().width / width;
    const nearer = () => zoomTo(scale() * 1.25);
    const farther = () => zoomTo(scale() / 1.25);
    const fit = () => {
      const frame = view.getBoundingClientRect();
      zoomTo(Math.min(frame.width / width, frame.height / height));
    };
    view.addEventListener('wheel', (event) => {
      if (event.ctrlKey || event.metaKey) {  // also two fingers on a touchpad
        event.preventDefault();
        zoomTo(scale() * Math.exp(-event.deltaY / 300), event.clientX, event.clientY);
      }
    }, {passive: false});
    view.addEventListener('keydown', (event) => {
      const action = {'+': nearer, '=': nearer, '-': farther, '0': fit, Escape: hide}[event.key];
      if (action && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        event.stopPropagation();
        action();
      }
    });

    let drag = null;
    view.addEventListener('pointerdown', (event) => {
      if (event.button === 0 && event.pointerType !== 'touch' && svg.contains(event.composedPath()[0])) {
        drag = {x: event.clientX, y: event.clientY, left: view.scrollLeft, top: view.scrollTop, moved: false};
      }
    });
    view.addEventListener('pointermove', (event) => {
      if (drag && event.buttons) {
        const [x, y] = [event.clientX - drag.x, event.clientY - drag.y];
        if (!drag.moved && Math.hypot(x, y) > 4) {
          drag.moved = true;
          view.setPointerCapture(event.pointerId);
          view.classList.add('dragged');
          hide();
        }
        if (drag.moved) {
          view.scrollTo(drag.left - x, drag.top - y);
        }
      } else if (kept < 0) {
        const index = boxAt(event);
        if (index < 0) {
          hide();
        } else {
          tell(index, false);
        }
      }
    });
    view.addEventListener('pointerleave', () => kept < 0 && hide());
    view.addEventListener('pointerup', () => view.classList.remove('dragged'));
    view.addEventListener('click', (event) => {
      const moved = drag?.moved;
      drag = null;
      if (!moved) {
        const index = boxAt(event);
        if (index < 0 || index === kept) {
          hide();
        } else {
          tell(index, true);
        }
      }
    });
    // The card belongs to a place on the screen, and the box to one in the page, which can be scrolled away.
    const follow = () => {
      if (!host.isConnected) {
        removeEventListener('scroll', follow, true);
      } else if (kept >= 0 && inSight(shapes[kept])) {
        put();
      } else if (shown >= 0) {
        hide();
      }
    };
    addEventListener('scroll', follow, true);

    // ---- edges beyond which there is more

    const shade = () => {
      const sides = [
        view.scrollLeft > 1 && 'inset 12px 0 9px -9px',
        view.scrollLeft + view.clientWidth < view.scrollWidth - 1 && 'inset -12px 0 9px -9px',
        view.scrollTop > 1 && 'inset 0 12px 9px -9px',
        view.scrollTop + view.clientHeight < view.scrollHeight - 1 && 'inset 0 -12px 9px -9px',
      ];
      view.style.boxShadow = sides.filter(Boolean).map((side) => `${side} rgba(128, 128, 128, .9)`).join(', ');
    };
    view.addEventListener('scroll', shade);
    const sizes = new ResizeObserver(shade);
    sizes.observe(view);
    sizes.observe(svg);

    shadow.append(element('style', {}, STYLE), view, element('div', {className: 'tools'},
      element('button', {onclick: farther, title: 'zoom out (-)', ariaLabel: 'zoom out'}, '−'),
      element('button', {onclick: fit, title: 'fit (0)', ariaLabel: 'fit the whole picture'}, '⤢'),
      element('button', {onclick: nearer, title: 'zoom in (+); Ctrl and the wheel zoom as well', ariaLabel: 'zoom in'}, '+')), card);
    (image.parentElement === place ? image : image.parentElement).replaceWith(host);
    const first = Number(place.dataset.at);
    if (first < shapes.length) {
      center(first);
    }
  };

  const here = document.currentScript?.parentElement;
  const start = () => here?.querySelectorAll('.pyopnb-graph[data-boxes]').forEach(animate);
  if (document.readyState === 'loading') {  // the tables come after this script
    document.addEventListener('DOMContentLoaded', start);
  } else {
    start();
  }
})();
