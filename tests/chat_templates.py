"""Chat templates written for tests, each with one awkwardness that real ones have."""

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)

DEFAULT_SYSTEM = (
    "{% if messages[0].role != 'system' %}"
    "{{ '<|im_start|>system\\nYou are a careful and helpful assistant.<|im_end|>\\n' }}"
    "{% endif %}" + CHATML
)
"""Says a system message of its own where the conversation has none, as Qwen 2.5's does."""

MISTRAL = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate user and assistant') }}{% endif %}"
    "{% if message.role == 'user' %}{{ '[INST] ' + message.content + '[/INST]' }}"
    "{% else %}{{ ' ' + message.content + eos_token }}{% endif %}"
    "{% endfor %}"
)
"""No system message and strict alternation, marks in plain text, no generation prompt."""

DROPS_REASONING = (
    "{% for message in messages %}"
    "{% set content = message.content.split('</think>')[-1] %}"
    "{{ '<|im_start|>' + message.role + '\\n' + content | trim + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n<think>\\n' }}{% endif %}"
)
"""Opens the answer with reasoning, and keeps none of it in the answers before."""

IGNORES_SYSTEM = (
    "{% for message in messages if message.role != 'system' %}"
    "{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{% endfor %}{{ '<|im_start|>assistant\\n' }}"
)
"""Takes a system message and says nothing of it."""

HARMONY = (
    "{{ '<|start|>system<|message|>You are a large language model.\\nReasoning: low<|end|>' }}"
    "{% for message in messages %}"
    "{% if message.role == 'system' %}"
    "{{ '<|start|>developer<|message|># Instructions\\n\\n' + message.content + '<|end|>' }}"
    "{% elif message.role == 'assistant' %}"
    "{{ '<|start|>assistant<|channel|>final<|message|>' + message.content + '<|end|>' }}"
    "{% else %}{{ '<|start|>user<|message|>' + message.content + '<|end|>' }}{% endif %}"
    "{% endfor %}{{ '<|start|>assistant' }}"
)
"""In the manner of gpt-oss: a system message of its own always, the user's as a developer's."""

LLAMA_TOOLS = (
    "{{ bos_token }}"
    "{{ '<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n' }}"
    "{% if messages[0].role == 'system' %}"
    "{{ messages[0].content | trim }}{% set rest = messages[1:] %}"
    "{% else %}{% set rest = messages %}{% endif %}{{ '<|eot_id|>' }}"
    "{% for message in rest %}"
    "{% if message.tool_calls %}"
    '{{ \'<|start_header_id|>assistant<|end_header_id|>\n\n{"name": "\' }}'
    '{{ message.tool_calls[0].function.name + \'", "parameters": \' }}'
    "{{ message.tool_calls[0].function.arguments | tojson }}{{ '}<|eot_id|>' }}"
    "{% elif message.role == 'tool' %}"
    "{{ '<|start_header_id|>ipython<|end_header_id|>\n\n' }}"
    "{{ message.content | tojson }}{{ '<|eot_id|>' }}"
    "{% else %}"
    "{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\n\n' }}"
    "{{ message.content | trim }}{{ '<|eot_id|>' }}{% endif %}"
    "{% endfor %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}"
)
"""In the manner of Llama 3.1 Instruct: a call as JSON, its result quoted by an "ipython"."""

MISTRAL_TOOLS = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message.tool_calls %}"
    "{% set call = message.tool_calls[0] %}"
    "{% if call.id | length != 9 %}{{ raise_exception('ids have nine characters') }}{% endif %}"
    "{{ ' [TOOL_CALLS] [' + {'name': call.function.name, 'arguments': call.function.arguments,"
    " 'id': call.id} | tojson + ']' + eos_token }}"
    "{% elif message.role == 'tool' %}"
    "{{ '[TOOL_RESULTS] ' + {'content': message.content, 'call_id': message.tool_call_id} | tojson"
    " + '[/TOOL_RESULTS]' }}"
    "{% elif message.role == 'user' %}{{ '[INST] ' + message.content + '[/INST]' }}"
    "{% else %}{{ ' ' + message.content + eos_token }}{% endif %}"
    "{% endfor %}"
)
"""In the manner of Mistral v3: calls and results as JSON with the call's id, marks in text."""

HARMONY_TOOLS = (
    "{{ '<|start|>system<|message|>You are a large language model.\nReasoning: low<|end|>' }}"
    "{% for message in messages %}"
    "{% if message.role == 'system' %}"
    "{{ '<|start|>developer<|message|># Instructions\n\n' + message.content + '<|end|>' }}"
    "{% elif message.tool_calls %}"
    "{% set call = message.tool_calls[0].function %}"
    "{{ '<|start|>assistant to=functions.' + call.name + '<|channel|>commentary json<|message|>' }}"
    "{{ call.arguments | tojson }}{{ '<|call|>' }}"
    "{% elif message.role == 'tool' %}"
    "{{ '<|start|>functions.bash to=assistant<|channel|>commentary<|message|>' }}"
    "{{ message.content | tojson }}{{ '<|end|>' }}"
    "{% else %}{{ '<|start|>user<|message|>' + message.content + '<|end|>' }}{% endif %}"
    "{% endfor %}{{ '<|start|>assistant' }}"
)
"""The calls and results of gpt-oss, in the manner of its own template."""

DATED = "{{ '<|im_start|>system\\nIt is ' + now() + '.<|im_end|>\\n' }}" + CHATML
"""Says what ``now`` returns, which may have another length each time."""

NUMBERED = (
    "{% for message in messages %}"
    "{{ '### ' ~ loop.index ~ ' ' ~ message.role ~ ': ' ~ message.content ~ '\\n' }}"
    "{% endfor %}{{ '### assistant:' }}"
)
"""Numbers its messages in plain text, so that some cost more than others in some tokenizers."""
