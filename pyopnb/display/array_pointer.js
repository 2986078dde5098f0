// Tells the number under the mouse in pictures of arrays, in a trusted output or a page.
//
// A picture is an <img> in an element with the class pyopnb-array. Its data-maps has, as JSON, the rows and columns of the array,
// whether row 0 is below, and for each heat map its place in the image, its name, and how many cells it has down and across. The
// last of them is the strip of the scale. The data-values has, compressed, the float32 of all cells, or of the strip alone where
// these would be too many: a number is then about the one that has the same color on the strip.
(() => {
  'use strict';

  const unpack = async (text) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
    return new Float32Array(await new Response(stream).arrayBuffer());
  };

  // The elements of a cell along an axis, as the picture was divided, from its upper or its lower end.
  const range = (cell, cells, size, fromEnd) => {
    let first = Math.floor((cell * size) / cells);
    let last = Math.floor(((cell + 1) * size) / cells) - 1;
    if (fromEnd) {
      [first, last] = [size - 1 - last, size - 1 - first];
    }
    return first === last ? `${first}` : `${first}–${last}`;
  };

  const animate = async (place) => {
    const {shape, lower, maps} = JSON.parse(place.dataset.maps);
    const packed = place.dataset.values;
    delete place.dataset.values;
    const values = await unpack(packed);
    const image = place.querySelector('img');
    const tip = document.createElement('div');
    tip.setAttribute('role', 'status');
    tip.style.cssText = `position:fixed; z-index:1000; display:none; pointer-events:none; padding:2px 6px; border-radius:4px;
      border:1px solid rgba(128, 128, 128, .55); font:12px/1.4 monospace; white-space:nowrap;
      background:var(--jp-layout-color1, var(--vscode-editor-background, Canvas));
      color:var(--jp-content-font-color1, var(--vscode-editor-foreground, CanvasText))`;
    place.append(tip);

    const strip = maps.pop();
    const isExact = values.length > strip[6];

    let pixels;
    const colorAt = (x, y) => {
      if (!pixels) {
        const canvas = Object.assign(document.createElement('canvas'), {width: image.naturalWidth, height: image.naturalHeight});
        pixels = canvas.getContext('2d', {willReadFrequently: true});
        pixels.drawImage(image, 0, 0);
      }
      return pixels.getImageData(x, y, 1, 1).data;
    };

    // About which number has the color of a pixel; NaN for a color that is not on the strip.
    const decoded = (x, y) => {
      const color = colorAt(x, y);
      const [left, top, width, height, , , count] = strip;
      let best = [64, NaN];
      for (let index = 0; index < count; index++) {
        const sample = colorAt(left + ((index + 0.5) / count) * width, top + height / 2);
        const distance = [0, 1, 2].reduce((sum, part) => sum + (color[part] - sample[part]) ** 2, 0);
        best = distance < best[0] ? [distance, values[index]] : best;
      }
      return best[1];
    };

    const textAt = (x, y) => {
      let first = 0;
      for (const [left, top, width, height, name, rows, columns] of maps) {
        const column = Math.floor(((x - left) / width) * columns);
        const row = Math.floor(((y - top) / height) * rows);
        if (column >= 0 && column < columns && row >= 0 && row < rows) {
          const at = [range(row, rows, shape[0], lower), range(column, columns, shape[1], false)];
          const place = `[${[...(name ? [name] : []), ...at].join(',')}]`;
          if (isExact) {
            return `${place} ${Number(values[first + row * columns + column].toPrecision(6))}`;
          }
          const value = decoded(x, y);
          return Number.isNaN(value) ? place : `${place} ≈ ${Number(value.toPrecision(2))}`;
        }
        first += rows * columns;
      }
      return '';
    };

    image.addEventListener('pointermove', ({clientX, clientY}) => {
      const box = image.getBoundingClientRect();
      const zoom = image.naturalWidth / box.width;
      tip.textContent = textAt((clientX - box.left) * zoom, (clientY - box.top) * zoom);
      tip.style.display = tip.textContent ? 'block' : 'none';
      tip.style.left = `${Math.min(clientX + 12, innerWidth - tip.offsetWidth - 4)}px`;
      tip.style.top = `${Math.min(clientY + 14, innerHeight - tip.offsetHeight - 4)}px`;
    });
    image.addEventListener('pointerleave', () => {
      tip.style.display = 'none';
    });
  };

  document.currentScript?.parentElement.querySelectorAll('.pyopnb-array[data-values]').forEach(animate);
})();
