// The prebuilt JupyterLab extension. It is written without a bundler: the object at the end of this file is what a bundler would
// generate around two small modules. The extension shows Netron for outputs and .onnx files, and tells the kernel which node was
// clicked. It also shows the live outputs of pyopnb.watch and pyopnb.interact, or their saved HTML where they cannot be live, tells
// pictures whether the theme is dark, and has a command that opens the panel of ops.
//
// All files are loaded from the folder of this script, so it works behind any base URL, token or proxy.
(() => {
  'use strict';

  const NAME = 'pyopnb-netron';
  const MIME = 'application/vnd.pyopnb.onnx+json';
  const FILE = 'application/x-onnx';
  const LIVE = 'application/vnd.pyopnb.live+json';
  const WIDGET = 'application/vnd.jupyter.widget-view+json';
  const HTML = 'text/html';
  const TARGET = 'pyopnb.netron';
  const HERE = document.currentScript.src.replace(/[^/]*$/, '');

  // The pictures of an output ask for the color scheme of the place where they are, which the themes of JupyterLab do not declare.
  const schemes = document.createElement('style');
  for (const [isLight, scheme] of [['true', 'light'], ['false', 'dark']]) {
    schemes.append(`[data-jp-theme-light="${isLight}"] .pyopnb-output img { color-scheme: ${scheme} }`);
  }
  document.head.append(schemes);

  // Tables can be copied and saved as CSV, and calls can be copied.
  const copyText = async (text) => {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
      return;
    }
    const area = Object.assign(document.createElement('textarea'), {value: text});  // where a page is not secure
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  };

  const rowsOf = (table) => [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent));
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

  const saveCsv = (table) => {
    const text = rowsOf(table).map((row) => row.map(quoted).join(',')).join('\n');
    const href = URL.createObjectURL(new Blob([`${text}\n`], {type: 'text/csv'}));
    Object.assign(document.createElement('a'), {href, download: 'table.csv'}).click();
    URL.revokeObjectURL(href);
  };

  const button = (name, label, act) => {
    const made = Object.assign(document.createElement('button'), {textContent: name, ariaLabel: label, className: 'pyopnb-tool'});
    made.addEventListener('click', async () => {
      await act();
      made.textContent = '✓';
      setTimeout(() => {
        made.textContent = name;
      }, 1000);
    });
    return made;
  };

  const addTools = (shown) => {
    if (shown.dataset.pyopnbTools) {
      return;
    }
    shown.dataset.pyopnbTools = 'true';
    if (shown.matches('table')) {
      const copy = () => copyText(rowsOf(shown).map((row) => row.join('\t')).join('\n'));
      shown.after(button('copy', 'copy the table', copy), button('CSV', 'save the table as CSV', () => saveCsv(shown)));
    } else {
      shown.after(button('copy', 'copy this call', () => copyText(shown.textContent)));
    }
  };

  new MutationObserver((changes) => {
    for (const {addedNodes} of changes) {
      for (const node of addedNodes) {
        if (node.nodeType === Node.ELEMENT_NODE) {
          node.parentElement?.querySelectorAll('table.pyopnb-table, code.pyopnb-copy').forEach(addTools);
        }
      }
    }
  }).observe(document.documentElement, {childList: true, subtree: true});
  schemes.append(`.pyopnb-tool { margin: 2px 4px 2px 0; padding: 0 6px; font-size: 80%; opacity: .6; cursor: pointer; color: inherit;
    background: none; border: 1px solid rgba(128, 128, 128, .55); border-radius: 4px } .pyopnb-tool:hover, .pyopnb-tool:focus-visible {
    opacity: 1 } code.pyopnb-copy { white-space: pre-wrap; margin-right: 6px }`);

  let scope;  // the shared modules of JupyterLab
  let notebooks;  // the notebook tracker of JupyterLab; undefined in applications without notebooks

  const shared = async (name) => {
    // Several extensions may provide a module. We need the one of JupyterLab, because classes and tokens are compared by identity.
    const providers = Object.values(scope[name] || {});
    const provider = providers.find(({from}) => /application-top/.test(from)) ||
      providers.find(({loaded}) => loaded) || providers[0];
    if (!provider) {
      throw new Error(`JupyterLab does not share ${name}`);
    }
    return (await provider.get())();
  };

  const downloads = new Map();
  const fetchOnce = (file) => {
    if (!downloads.has(file)) {
      const content = fetch(HERE + file).then(async (response) => {
        if (!response.ok) {
          throw new Error(`${response.status} for ${file}`);
        }
        // A proxy may have decompressed the file.
        const bytes = new Uint8Array(await response.arrayBuffer());
        return JSON.parse(bytes[0] === 0x1f ? await gunzip(bytes) : new TextDecoder().decode(bytes));
      });
      content.catch(() => downloads.delete(file));  // so that the next call tries again
      downloads.set(file, content);
    }
    return downloads.get(file);
  };

  const decompress = (bytes) => new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip')));
  const gunzip = (bytes) => decompress(bytes).text();
  const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const isDark = () => document.body.dataset.jpThemeLight === 'false';

  // Shows a model in the DOM element `node` and calls `selected` with the name of each node that is clicked. Returns a function
  // that removes it again.
  const show = async (node, {model, documentation, colors, name, selected}) => {
    const {page, modules} = await fetchOnce('assets.json.gz');
    const frame = document.createElement('iframe');
    frame.setAttribute('sandbox', 'allow-scripts allow-downloads');
    frame.title = `Netron: ${name}`;
    frame.style.cssText = 'width:100%;height:100%;border:0;display:block';
    const post = (message) => frame.contentWindow?.postMessage({pyopnb: 'netron', ...message}, '*');
    const receive = ({source, data}) => {
      if (!source || source !== frame.contentWindow || !data || data.pyopnb !== 'netron') {
        return;
      }
      if (data.do === 'ask') {  // again whenever the frame is moved in the page, which reloads it
        post({do: 'open', modules, documentation, colors, model, dark: isDark()});
      } else if (data.do === 'select' && typeof data.node === 'string') {
        selected(data.node);
      }
    };
    window.addEventListener('message', receive);
    const theme = new MutationObserver(() => post({do: 'paint', dark: isDark()}));
    theme.observe(document.body, {attributes: true, attributeFilter: ['data-jp-theme-light']});
    frame.srcdoc = page;
    // Netron measures its labels, which is impossible until JupyterLab renders this part of the page.
    const visible = new IntersectionObserver((entries) => {
      if (entries.some(({isIntersecting}) => isIntersecting)) {
        visible.disconnect();
        node.replaceChildren(frame);
      }
    });
    visible.observe(node);
    return () => {
      visible.disconnect();
      window.removeEventListener('message', receive);
      theme.disconnect();
      frame.remove();
    };
  };

  const renderer = async () => {
    const {Panel, Widget} = await shared('@lumino/widgets');
    const {OutputArea, OutputAreaModel} = await shared('@jupyterlab/outputarea');

    return class Netron extends Panel {
      constructor({mimeType, resolver}) {
        super();
        this.mimeType = mimeType;
        this.resolver = resolver;
        this.view = new Widget();
        this.addWidget(this.view);
        this.addClass('pyopnb-netron-renderer');
      }

      async renderModel({data}) {
        const content = data[this.mimeType];
        this.stop?.();
        this.stop = null;
        try {
          const model = this.mimeType === FILE ? await this.file(content) : await this.output(content);
          this.stop = await show(this.view.node, {...model, selected: (node) => this.selected(content.view, node)});
        } catch (error) {
          this.view.node.textContent = `Netron cannot show this model: ${error.message}`;
        }
        if (this.isDisposed) {
          this.stop?.();
        }
      }

      async file(content) {
        this.node.style.height = this.view.node.style.height = '100%';
        const name = (this.resolver?.path || 'model.onnx').split('/').pop();
        return {name, model: bytesOf(content), documentation: await fetchOnce('documentation.json.gz')};
      }

      async output({model, documentation, colors, name, caption, height}) {
        this.view.node.style.height = `${Number(height) || 480}px`;
        this.view.node.style.border = '1px solid var(--jp-border-color2)';
        this.view.node.style.boxSizing = 'border-box';
        if (!this.caption) {
          this.caption = new Widget();
          this.caption.node.style.cssText = 'opacity:.75;font-size:90%;color:var(--jp-content-font-color1)';
          this.addWidget(this.caption);
        }
        this.caption.node.textContent = String(caption);
        const bytes = new Uint8Array(await decompress(bytesOf(model)).arrayBuffer());
        return {name: String(name), model: bytes, documentation, colors};
      }

      // Tells the kernel, and shows below the view what its listeners print, display or raise.
      selected(view, node) {
        const panel = notebooks?.find((candidate) => candidate.node.contains(this.node));
        const kernel = panel?.sessionContext.session?.kernel;
        if (!view || !kernel || kernel.status === 'dead') {
          return;
        }
        if (!this.comm || this.comm.isDisposed || this.kernel !== kernel) {
          this.kernel = kernel;
          this.comm = kernel.createComm(TARGET);
          this.comm.open({});
        }
        if (!this.replies) {
          this.replies = new OutputArea({model: new OutputAreaModel({trusted: true}), rendermime: panel.content.rendermime});
          this.addWidget(this.replies);
        }
        this.replies.future = this.comm.send({view, node});
      }

      dispose() {
        this.stop?.();
        if (this.comm && !this.comm.isDisposed) {
          this.comm.close();
        }
        super.dispose();
      }
    };
  };

  // JupyterLab shows "model not found" for a widget whose model no longer exists, and ignores the HTML in the same output.
  // Therefore live outputs have a MIME type of ours, for which both are rendered here: the widget as long as it is live, and the
  // HTML before and after that.
  const liveOutput = async () => {
    const {Panel} = await shared('@lumino/widgets');

    return class LiveOutput extends Panel {
      async renderModel(model) {
        this.model = model;
        this.draw();
      }

      onAfterAttach(message) {
        super.onAfterAttach(message);
        this.draw();
      }

      // The renderers come from the output area around this widget, in a notebook, a console or a copied output.
      get rendermime() {
        let ancestor = this.parent;
        while (ancestor && !ancestor.rendermime) {
          ancestor = ancestor.parent;
        }
        return ancestor?.rendermime;
      }

      draw() {
        const rendermime = this.rendermime;
        if (!this.model || !rendermime) {
          return;
        }
        const {data, trusted} = this.model;
        const id = data[LIVE].model_id;
        if (this.drawn !== id) {
          this.drawn = id;
          this.stop();
          this.live?.dispose();
          this.live = null;
          // Like JupyterLab itself: no widgets, which can call the kernel, in untrusted outputs.
          if (trusted && rendermime.mimeTypes.includes(WIDGET)) {
            this.follow();
            this.animate(rendermime, id);
            // While a notebook is being opened, which may take long, the renderer of widgets is replaced by one that has a widget
            // manager. There is no signal of it.
            let factory = rendermime.getFactory(WIDGET);
            this.timer = setInterval(() => {
              const current = rendermime.getFactory(WIDGET);
              if (current && current !== factory) {
                factory = current;
                this.animate(rendermime, id);
              }
              if (!this.live.isHidden) {
                clearInterval(this.timer);
              }
            }, 250);
          }
        }
        this.choose();
      }

      animate(rendermime, id) {
        this.watcher?.disconnect();
        this.live?.dispose();
        this.live = this.part(rendermime, WIDGET, {model_id: id, version_major: 2, version_minor: 0}, true);
        // It is empty or a text until its model is found, possibly after a kernel has started, and once its widget is closed.
        this.watcher = new MutationObserver(() => {
          this.choose();
          // ipywidgets gives the handles of its sliders no name.
          for (const handle of this.live?.node.querySelectorAll('[role=slider]:not([aria-label])') || []) {
            handle.setAttribute('aria-label', handle.closest('.jupyter-widgets')?.querySelector('label')?.textContent || 'value');
          }
        });
        this.watcher.observe(this.live.node, {childList: true, subtree: true, attributes: true, attributeFilter: ['class']});
      }

      // JupyterLab forgets where updates belong when a page is reloaded. The notebook is to be saved with the last one.
      follow() {
        const session = notebooks?.find((candidate) => candidate.node.contains(this.node))?.sessionContext;
        if (!session || session === this.session) {
          return;
        }
        this.session = session;
        session.statusChanged.connect(this.choose, this);
        session.kernelChanged.connect(this.choose, this);
        session.iopubMessage.connect((_, {header, content}) => {
          const {data, transient} = header.msg_type === 'update_display_data' ? content : {};
          const {display_id: id} = this.model.data[LIVE];
          if (id && transient?.display_id === id && data[LIVE] && data[HTML] !== this.model.data[HTML]) {
            this.model.setData({data});
          }
        }, this);
      }

      part(rendermime, type, content, trusted) {
        const panel = new Panel();
        const renderer = rendermime.createRenderer(type);
        panel.addWidget(renderer);
        this.addWidget(panel);
        renderer.renderModel(rendermime.createModel({data: {[type]: content}, trusted}));
        return panel;
      }

      choose() {
        const kernel = this.session?.session?.kernel;
        const gone = this.session && (!kernel || /dead|terminating|restarting/.test(kernel.status));
        const widget = this.live?.widgets[0].widgets?.find((candidate) => !candidate.isDisposed);
        const live = Boolean(widget) && !gone && !widget.hasClass('jupyter-widgets-disconnected');
        if (widget && !live) {
          widget.dispose();  // no kernel will have its model again
        }
        this.live?.setHidden(!live);
        const {data, trusted} = this.model;
        const html = live ? undefined : data[HTML];
        if (this.saved?.html !== html) {
          this.saved?.part.dispose();
          this.saved = live ? undefined : {html, part: this.part(this.rendermime, HTML, html, trusted)};
        }
      }

      stop() {
        this.watcher?.disconnect();
        clearInterval(this.timer);
      }

      dispose() {
        this.stop();
        super.dispose();
      }
    };
  };

  const modules = {
    // safe: Netron runs in a frame with an origin of its own, so no trust is needed.
    './mimeExtension': async () => {
      const Netron = await renderer();
      const LiveOutput = await liveOutput();
      const factory = (mimeType) => ({safe: true, mimeTypes: [mimeType], createRenderer: (options) => new Netron(options)});
      return [
        {id: `${NAME}:output`, rendererFactory: factory(MIME), rank: 0, dataType: 'json'},
        {
          id: `${NAME}:live`,
          // safe: without trust it renders the HTML alone, which JupyterLab sanitizes.
          rendererFactory: {safe: true, mimeTypes: [LIVE], createRenderer: () => new LiveOutput()},
          rank: -100,  // preferred to the widget's -10
          dataType: 'json',
        },
        {
          id: `${NAME}:file`,
          rendererFactory: factory(FILE),
          rank: 0,
          dataType: 'string',
          fileTypes: [
            {name: 'onnx', displayName: 'ONNX model', extensions: ['.onnx'], mimeTypes: [FILE], fileFormat: 'base64', contentType: 'file'},
          ],
          documentWidgetFactoryOptions: {
            name: 'Netron', modelName: 'base64', primaryFileType: 'onnx', fileTypes: ['onnx'], defaultFor: ['onnx'],
          },
        },
      ];
    },
    './extension': async () => {
      const {INotebookTracker, NotebookActions} = await shared('@jupyterlab/notebook');
      const {ICommandPalette} = await shared('@jupyterlab/apputils');
      const {ILauncher} = await shared('@jupyterlab/launcher');
      const {listIcon} = await shared('@jupyterlab/ui-components');

      // Adds a cell with the panel to the current notebook, or to a new one, and runs it.
      const openPanel = async (app) => {
        const kernelName = app.serviceManager.kernelspecs.specs?.default;
        const panel = notebooks.currentWidget || await app.commands.execute('notebook:create-new', {kernelName});
        await panel.context.ready;
        await panel.sessionContext.ready;
        app.shell.activateById(panel.id);
        const notebook = panel.content;
        const loads = notebook.widgets.some(({model}) => model.sharedModel.getSource().includes('load_ext pyopnb'));
        NotebookActions.insertBelow(notebook);
        notebook.activeCell.model.sharedModel.setSource(loads ? '%pyop panel' : '%load_ext pyopnb\n%pyop panel');
        await NotebookActions.run(notebook, panel.sessionContext);
      };

      return {
        id: `${NAME}:notebooks`,
        description: 'Tells the kernel of a notebook which node was clicked in Netron, and opens the panel of ops.',
        autoStart: true,
        optional: [INotebookTracker, ICommandPalette, ILauncher],
        activate: (app, tracker, palette, launcher) => {
          notebooks = tracker;
          if (!tracker) {
            return;
          }
          const command = 'pyopnb:panel';
          const caption = 'Show the ops with their versions, and the sessions that use them';
          const label = ({isLauncher}) => (isLauncher ? 'Ops of pyopnb' : 'pyopnb: open the panel');
          app.commands.addCommand(command, {label, caption, icon: listIcon, execute: () => openPanel(app)});
          palette?.addItem({command, category: 'Notebook Operations'});
          launcher?.add({command, args: {isLauncher: true}, category: 'Other'});
        },
      };
    },
  };

  window._JUPYTERLAB = window._JUPYTERLAB || {};
  window._JUPYTERLAB[NAME] = {
    init: (shareScope) => {
      scope = shareScope;
    },
    get: async (name) => {
      const exported = await modules[name]();
      return () => ({__esModule: true, default: exported});
    },
  };
})();
