    .section .rodata
    .global pons_budget_prices_begin
    .global pons_budget_prices_end
pons_budget_prices_begin:
    .incbin PONS_BUDGET_PRICES
pons_budget_prices_end:
    .section .note.GNU-stack, "", %progbits
