// A chat with the model of this server. The page keeps the turns; each request sends all of them.
(() => {
  'use strict';
  const at = (id) => document.getElementById(id);
  const chat = at('chat');
  let model = '';
  let turns = [];      // as the API takes them
  let pictures = [];   // data URLs that wait for the next message
  let request = null;  // AbortController of the answer that is coming

  const add = (kind, text, urls = []) => {
    const turn = document.createElement('div');
    turn.className = `turn ${kind}`;
    for (const url of urls) {
      const image = document.createElement('img');
      image.src = url;
      image.alt = 'picture of the message';
      turn.append(image);
    }
    const words = document.createElement('span');
    words.textContent = text;
    turn.append(words);
    chat.append(turn);
    chat.scrollTop = chat.scrollHeight;
    return turn;
  };

  const showPictures = () => {
    at('pictures').replaceChildren(...pictures.map((url) => {
      const image = document.createElement('img');
      image.src = url;
      image.alt = 'picture to send';
      return image;
    }));
  };

  const setBusy = (busy) => { at('send').textContent = busy ? 'Stop' : 'Send'; };

  // Calls `take` with each event of a stream of server-sent events.
  const readEvents = async (body, take) => {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let waiting = '';
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const events = (waiting + value).split('\n\n');
      waiting = events.pop();
      for (const event of events) {
        const data = event.replace(/^data: /, '');
        if (data !== '[DONE]') take(JSON.parse(data));
      }
    }
  };

  const describe = (usage, reason) =>
    `${usage.completion_tokens} tokens after ${usage.prompt_tokens}${reason === 'length' ? ', cut' : ''}`;

  const ask = async () => {
    const system = at('system').value.trim();
    const tokens = Number(at('tokens').value);
    const body = { model, stream: true, stream_options: { include_usage: true },
      temperature: Number(at('temperature').value),
      messages: system ? [{ role: 'system', content: system }, ...turns] : turns };
    if (tokens > 0) body.max_tokens = tokens;
    const shown = add('assistant', '');
    const words = shown.querySelector('span');
    request = new AbortController();
    setBusy(true);
    let reason = null;
    try {
      const response = await fetch('v1/chat/completions', { method: 'POST', signal: request.signal,
        headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
      if (!response.ok) throw new Error((await response.json()).error.message);
      await readEvents(response.body, (event) => {
        if (event.error) throw new Error(event.error.message);
        for (const choice of event.choices) {
          words.textContent += choice.delta.content || '';
          reason = choice.finish_reason || reason;
        }
        if (event.usage) {
          const note = document.createElement('small');
          note.textContent = describe(event.usage, reason);
          shown.append(note);
        }
        chat.scrollTop = chat.scrollHeight;
      });
      turns.push({ role: 'assistant', content: words.textContent });
    } catch (failure) {
      if (failure.name === 'AbortError') {
        turns.push({ role: 'assistant', content: words.textContent });
      } else {
        shown.remove();
        turns.pop();  // what could not be answered
        add('error', failure.message);
      }
    }
    request = null;
    setBusy(false);
  };

  const send = () => {
    if (request) return request.abort();
    const text = at('text').value.trim();
    if (!text) return;
    add('user', text, pictures);
    const parts = pictures.map((url) => ({ type: 'image_url', image_url: { url } }));
    turns.push({ role: 'user', content: parts.length ? [...parts, { type: 'text', text }] : text });
    at('text').value = '';
    pictures = [];
    showPictures();
    ask();
  };

  at('form').addEventListener('submit', (event) => { event.preventDefault(); send(); });
  at('text').addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!request) send();
  });
  at('file').addEventListener('change', async () => {
    for (const file of at('file').files) {
      pictures.push(await new Promise((resolve) => {
        const reader = new FileReader();
        reader.onload = () => resolve(reader.result);
        reader.readAsDataURL(file);
      }));
    }
    at('file').value = '';
    showPictures();
  });
  at('reset').addEventListener('click', () => {
    if (request) request.abort();
    turns = [];
    pictures = [];
    showPictures();
    chat.replaceChildren();
    at('text').focus();
  });

  fetch('v1/models').then((response) => response.json()).then((list) => {
    model = list.data[0].id;
    at('model').textContent = model;
  });
})();
