    .section .rodata
    .balign 16
    .global pons_cell_image_begin
    .global pons_cell_image_end
pons_cell_image_begin:
    .incbin PONS_CELL_FILE
pons_cell_image_end:
    .section .note.GNU-stack, "", %progbits
